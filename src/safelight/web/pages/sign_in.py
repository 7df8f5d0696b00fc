"""Coming in and going out: the form, the printed link, and POST /login for programs too."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from safelight.accounts.guard import (
    COOKIE,
    AsAnyone,
    Credentials,
    open_to_everyone,
    refuse_foreign_page,
)
from safelight.accounts.origin import local_path
from safelight.accounts.show import show_caller
from safelight.accounts.sign_in.flow import DeadLink, SignIn
from safelight.errors import RateLimited, SafelightError, UnsupportedMediaType
from safelight.http.frame import SettingsDep, provided
from safelight.settings import Settings
from safelight.web.rendering import Context, PagesDep
from safelight.web.session_cookie import clear_cookie, set_cookie

router = APIRouter(tags=["sign in"])

Flow = Annotated[SignIn, provided(SignIn)]
Known = Annotated[Credentials, provided(Credentials)]

_SCHEMA = {
    "type": "object",
    "required": ["username", "password"],
    "properties": {
        "username": {"type": "string"},
        "password": {"type": "string", "format": "password"},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _SCHEMA},
            "application/x-www-form-urlencoded": {"schema": _SCHEMA},
        },
    }
}


@dataclass(frozen=True, kw_only=True)
class SignInPage(Context):
    template: ClassVar[str] = "login.html"
    title: str = "Sign in"
    username: str = ""
    next: str = "/"
    problem: str | None = None


class SignInBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    username: str
    password: str


@router.get("/login", dependencies=[open_to_everyone], include_in_schema=False)
async def login_page(
    request: Request,
    pages: PagesDep,
    flow: Flow,
    settings: SettingsDep,
    credentials: Known,
    code: Annotated[str | None, Query()] = None,
    next_path: Annotated[str | None, Query(alias="next")] = None,
) -> Response:
    target, cookie = local_path(next_path), request.cookies.get(COOKIE)
    if code is None:
        return pages.render(request, SignInPage(next=target))
    try:
        opened = await flow.with_code(code, cookie=cookie)
    except DeadLink as error:
        if cookie and await credentials.of_session(cookie):
            return RedirectResponse(target, 303)  # the same link again, in the browser it opened
        return pages.render(request, SignInPage(next=target, problem=error.message), error.status)
    return _welcome(RedirectResponse(target, 303), settings, opened)


@router.post(
    "/login",
    dependencies=[open_to_everyone],
    summary="Sign in",
    description="Answers a form with a redirect and JSON with who signed in; both set the cookie.",
    openapi_extra=_BODY,
)
async def login(
    request: Request, pages: PagesDep, flow: Flow, settings: SettingsDep, credentials: Known
) -> Response:
    refuse_foreign_page(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        cookie = await _check(request, flow, _json_body(await request.body()))
        caller = await credentials.of_session(cookie)
        return _welcome(JSONResponse(show_caller(caller) if caller else {}), settings, cookie)
    if kind not in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        raise UnsupportedMediaType("Send the body as a form or as application/json.")
    form = await request.form(max_files=0, max_fields=10)
    given = SignInBody(username=_text(form, "username"), password=_text(form, "password"))
    target = local_path(_text(form, "next"))
    try:
        cookie = await _check(request, flow, given)
    except SafelightError as error:
        page = SignInPage(username=given.username, next=target, problem=error.message)
        response = pages.render(request, page, error.status)
        if isinstance(error, RateLimited):
            response.headers["retry-after"] = str(error.retry_after)
        return response
    return _welcome(RedirectResponse(target, 303), settings, cookie)


@router.post("/logout", summary="Sign out")
async def logout(request: Request, caller: AsAnyone, flow: Flow, settings: SettingsDep) -> Response:
    cookie = request.cookies.get(COOKIE)
    if cookie and caller.kind == "user":
        await flow.out(cookie)
    wants_page = "text/html" in request.headers.get("accept", "")
    response = RedirectResponse("/login", 303) if wants_page else Response(status_code=204)
    clear_cookie(response, settings)
    return response


async def _check(request: Request, flow: SignIn, given: SignInBody) -> str:
    return await flow.with_password(
        given.username.strip().lower(),
        given.password,
        address=request.client.host if request.client else None,
        cookie=request.cookies.get(COOKIE),
    )


def _json_body(body: bytes) -> SignInBody:
    try:
        return SignInBody.model_validate_json(body)
    except ValidationError as error:
        problems = [{**found, "loc": ("body", *found["loc"])} for found in error.errors()]
        raise RequestValidationError(problems) from None


def _text(form: Any, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""


def _welcome(response: Response, settings: Settings, cookie: str) -> Response:
    set_cookie(response, settings, cookie)
    return response
