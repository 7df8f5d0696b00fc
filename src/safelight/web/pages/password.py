"""Choosing a password: the first one after a sign-in link, or another."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Caller
from safelight.accounts.guard import COOKIE, AsUser
from safelight.accounts.passwords import LEAST_CHARACTERS
from safelight.accounts.sign_in.flow import SignIn
from safelight.errors import RateLimited, SafelightError
from safelight.http.frame import DatabaseDep, SettingsDep, provided
from safelight.infra.db import Database
from safelight.web.rendering import Context, PagesDep
from safelight.web.session_cookie import DEVICE_COOKIE, welcome

router = APIRouter(include_in_schema=False)

Flow = Annotated[SignIn, provided(SignIn)]


@dataclass(frozen=True, kw_only=True)
class PasswordPage(Context):
    template: ClassVar[str] = "password.html"
    title: str = "Password"
    username: str
    has_password: bool
    least_characters: int = LEAST_CHARACTERS
    problem: str | None = None


@router.get("/account/password")
async def password_page(
    request: Request, caller: AsUser, pages: PagesDep, db: DatabaseDep, flow: Flow
) -> Response:
    return await pages.render(request, await _page(request, caller, db, flow))


@router.post("/account/password")
async def change_password(
    request: Request,
    caller: AsUser,
    pages: PagesDep,
    db: DatabaseDep,
    flow: Flow,
    settings: SettingsDep,
    password: Annotated[str, Form()] = "",
    current: Annotated[str | None, Form()] = None,
) -> Response:
    cookie, device = request.cookies.get(COOKIE), request.cookies.get(DEVICE_COOKIE)
    try:
        opened = await flow.change_password(
            caller.id, current=current, new=password, cookie=cookie, device=device
        )
    except SafelightError as error:
        page = await _page(request, caller, db, flow, problem=error.message)
        response: Response = await pages.render(request, page, error.status)
        if isinstance(error, RateLimited):
            response.headers["retry-after"] = str(error.retry_after)
        return response
    response = RedirectResponse("/", 303)
    welcome(response, settings, opened)
    return response


async def _page(
    request: Request, caller: Caller, db: Database, flow: SignIn, problem: str | None = None
) -> PasswordPage:
    user = await repo.user(db, caller.id)
    confirm = user is not None and await flow.must_confirm(user, request.cookies.get(COOKIE))
    return PasswordPage(username=caller.name, has_password=confirm, problem=problem)
