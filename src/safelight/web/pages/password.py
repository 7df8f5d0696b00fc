"""Choosing a password: the first one after a sign-in link, or another."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Caller
from safelight.accounts.guard import AsUser
from safelight.accounts.passwords import LEAST_CHARACTERS
from safelight.accounts.sign_in.flow import SignIn
from safelight.errors import RateLimited, SafelightError
from safelight.http.frame import DatabaseDep, SettingsDep, provided
from safelight.infra.db import Database
from safelight.web.rendering import Context, PagesDep
from safelight.web.session_cookie import set_cookie

router = APIRouter(include_in_schema=False)


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
    request: Request,
    caller: AsUser,
    pages: PagesDep,
    db: DatabaseDep,
) -> Response:
    page = PasswordPage(username=caller.name, has_password=await has_password(db, caller))
    return pages.render(request, page)


@router.post("/account/password")
async def change_password(
    request: Request,
    caller: AsUser,
    pages: PagesDep,
    db: DatabaseDep,
    flow: Annotated[SignIn, provided(SignIn)],
    settings: SettingsDep,
    password: Annotated[str, Form()] = "",
    current: Annotated[str | None, Form()] = None,
) -> Response:
    address = request.client.host if request.client else None
    try:
        cookie = await flow.change_password(
            caller.id, current=current, new=password, address=address
        )
    except SafelightError as error:
        known = await has_password(db, caller)
        page = PasswordPage(username=caller.name, has_password=known, problem=error.message)
        response: Response = pages.render(request, page, error.status)
        if isinstance(error, RateLimited):
            response.headers["retry-after"] = str(error.retry_after)
        return response
    response = RedirectResponse("/", 303)
    set_cookie(response, settings, cookie)
    return response


async def has_password(db: Database, caller: Caller) -> bool:
    user = await repo.user(db, caller.id)
    return user is not None and user.password_hash is not None
