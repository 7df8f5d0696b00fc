"""Choosing a password: the first one after a sign-in link, or another."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Caller
from safelight.accounts.guard import COOKIE, AsUser
from safelight.accounts.origin import local_path
from safelight.accounts.passwords import LEAST_CHARACTERS
from safelight.accounts.sign_in.flow import SignIn
from safelight.errors import RateLimited, SafelightError
from safelight.http.frame import SettingsDep, provided, services
from safelight.infra.db import Database
from safelight.web.rendering import Context, PagesDep
from safelight.web.session_cookie import DEVICE_COOKIE, welcome, whence

router = APIRouter(include_in_schema=False)

Flow = Annotated[SignIn, provided(SignIn)]


@dataclass(frozen=True, kw_only=True)
class PasswordPage(Context):
    """`next` is where whoever came by a link wanted to go, and goes without a password too."""

    template: ClassVar[str] = "password.html"
    title: str = "Password"
    username: str
    operator: bool
    has_one: bool
    confirms: bool
    next: str | None
    least_characters: int = LEAST_CHARACTERS
    problem: str | None = None


@router.get("/account/password")
async def password_page(
    request: Request,
    caller: AsUser,
    pages: PagesDep,
    next_path: Annotated[str | None, Query(alias="next")] = None,
) -> Response:
    return await pages.render(request, await _page(request, caller, next_path))


@router.post("/account/password")
async def change_password(
    request: Request,
    caller: AsUser,
    pages: PagesDep,
    flow: Flow,
    settings: SettingsDep,
    password: Annotated[str, Form()] = "",
    current: Annotated[str | None, Form()] = None,
    next_path: Annotated[str | None, Form(alias="next")] = None,
) -> Response:
    try:
        opened = await flow.change_password(
            caller.id,
            current=current,
            new=password,
            cookie=request.cookies.get(COOKIE),
            device=request.cookies.get(DEVICE_COOKIE),
            whence=whence(request),
        )
    except SafelightError as error:
        page = await _page(request, caller, next_path, problem=error.message)
        response: Response = await pages.render(request, page, error.status)
        if isinstance(error, RateLimited):
            response.headers["retry-after"] = str(error.retry_after)
        return response
    response = RedirectResponse(local_path(next_path) if next_path else "/account", 303)
    welcome(response, settings, opened)
    return response


async def _page(
    request: Request, caller: Caller, next_path: str | None, problem: str | None = None
) -> PasswordPage:
    registry = services(request)
    user, flow = await repo.user(registry.get(Database), caller.id), registry.get(SignIn)
    confirms = user is not None and await flow.must_confirm(user, request.cookies.get(COOKIE))
    return PasswordPage(
        username=caller.name,
        operator=caller.operator,
        has_one=user is not None and user.password_hash is not None,
        confirms=confirms,
        next=local_path(next_path) if next_path else None,
        problem=problem,
    )
