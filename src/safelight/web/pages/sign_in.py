"""Coming in and going out: the form, the page of a link, and POST /login for programs too.

Looking at a link does nothing: previews and mail scanners look at links, and another site can lead
a visitor to one. Its page says what it is for, and its button does it.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Caller, Invitation
from safelight.accounts.answers import CallerAnswer
from safelight.accounts.guard import (
    COOKIE,
    AsAnyone,
    Credentials,
    open_to_everyone,
    refuse_foreign_page,
)
from safelight.accounts.invitations.invitations import SignInFirst
from safelight.accounts.origin import local_path
from safelight.accounts.show import show_caller
from safelight.accounts.sign_in.flow import Opened, SignIn
from safelight.accounts.sign_in.links import DeadLink, link_path
from safelight.errors import InvalidRequest, RateLimited, SafelightError, UnsupportedMediaType
from safelight.http.described import Described
from safelight.http.frame import DatabaseDep, SettingsDep, provided
from safelight.settings import Settings
from safelight.web.rendering import Context, PagesDep
from safelight.web.session_cookie import DEVICE_COOKIE, clear_cookie, welcome, whence

router = APIRouter(tags=["sign in"], route_class=Described)

Flow = Annotated[SignIn, provided(SignIn)]
Known = Annotated[Credentials, provided(Credentials)]

_SCHEMA = {
    "type": "object",
    "description": "A username and a password, or the code of a link.",
    "properties": {
        "username": {"type": "string"},
        "password": {"type": "string", "format": "password"},
        "code": {"type": "string"},
    },
    "examples": [{"username": "ada", "password": "…"}],
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
    tone: str = "problem"


@dataclass(frozen=True, kw_only=True)
class LinkPage(Context):
    """Says whom a link signs in, or what it invites to; the same whether or not there is a user of
    the invited name."""

    template: ClassVar[str] = "link.html"
    title: str = "Sign in"
    username: str
    code: str
    next: str
    invitation: Invitation | None
    present: str | None  # who is signed in here, if it is somebody else


class SignInBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    username: str | None = None
    password: str | None = None
    code: str | None = None


@router.get("/login", dependencies=[open_to_everyone], include_in_schema=False)
async def login_page(
    request: Request,
    pages: PagesDep,
    flow: Flow,
    credentials: Known,
    code: Annotated[str | None, Query()] = None,
    next_path: Annotated[str | None, Query(alias="next")] = None,
) -> Response:
    target, cookie = local_path(next_path), request.cookies.get(COOKIE)
    if code is None:
        return await pages.render(request, SignInPage(next=target))
    caller = await credentials.of_session(cookie) if cookie else None
    found = await flow.behind(code)
    if found is not None:
        return await pages.render(request, _link_page(found, code, target, caller))
    if caller is not None:
        return RedirectResponse(target, 303)  # the same link again, in the browser it opened
    page = SignInPage(next=target, problem=DeadLink.default_message())
    return await pages.render(request, page, DeadLink.status)


@router.post(
    "/login",
    dependencies=[open_to_everyone],
    summary="Sign in",
    description="Answers a form with a redirect and JSON with who signed in; both set the cookies. "
    "The code of an invitation makes its user, or accepts it for that user, signed in.",
    openapi_extra=_BODY,
    response_model=CallerAnswer,
    responses={303: {"description": "Signed in; the page to go to."}},
)
async def login(
    request: Request, pages: PagesDep, flow: Flow, settings: SettingsDep, credentials: Known
) -> Response:
    refuse_foreign_page(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        opened = await _open(request, flow, _json_body(await request.body()))
        caller = await credentials.of_session(opened.cookie)
        return _welcome(JSONResponse(show_caller(caller) if caller else {}), settings, opened)
    if kind not in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        raise UnsupportedMediaType("Send the body as a form or as application/json.")
    form = await request.form(max_files=0, max_fields=10)
    given = SignInBody(
        username=_text(form, "username"),
        password=_text(form, "password"),
        code=_text(form, "code") if "code" in form else None,
    )
    target = local_path(_text(form, "next"))
    try:
        opened = await _open(request, flow, given)
    except SafelightError as error:
        response = await pages.render(request, _form_again(given, target, error), error.status)
        if isinstance(error, RateLimited):
            response.headers["retry-after"] = str(error.retry_after)
        return response
    if opened.wants_password and target != "/account/password":
        target = f"/account/password?next={quote(target)}"
    return _welcome(RedirectResponse(target, 303), settings, opened)


@router.post("/logout", status_code=204, summary="Sign out")
async def logout(
    request: Request, caller: AsAnyone, flow: Flow, db: DatabaseDep, settings: SettingsDep
) -> Response:
    """A browser is asked first if there is no password to come back with."""
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and caller.kind == "user":
        user = await repo.user(db, caller.id)
        if user is not None and user.password_hash is None:
            return RedirectResponse("/account/sign-out", 303)
    cookie = request.cookies.get(COOKIE)
    if cookie and caller.kind == "user":
        await flow.out(cookie)
    response = RedirectResponse("/login", 303) if wants_page else Response(status_code=204)
    clear_cookie(response, settings)
    return response


async def _open(request: Request, flow: SignIn, given: SignInBody) -> Opened:
    cookie, device = request.cookies.get(COOKIE), request.cookies.get(DEVICE_COOKIE)
    if given.code is not None:
        return await flow.with_code(
            given.code, cookie=cookie, device=device, whence=whence(request)
        )
    if given.username is None or given.password is None:
        raise InvalidRequest("Give a username and a password, or the code of a link.")
    seen = whence(request)
    return await flow.with_password(
        given.username.strip().lower(),
        given.password,
        address=seen.address,
        cookie=cookie,
        device=device,
        agent=seen.agent,
    )


def _link_page(found: str | Invitation, code: str, target: str, caller: Caller | None) -> LinkPage:
    invitation = found if isinstance(found, Invitation) else None
    username = found.username if isinstance(found, Invitation) else found
    if invitation and target == "/":
        target = f"/app/{invitation.organization}/upload"
    present = caller.name if caller and caller.name != username else None
    return LinkPage(
        username=username, code=code, next=target, invitation=invitation, present=present
    )


def _form_again(given: SignInBody, target: str, error: SafelightError) -> SignInPage:
    if isinstance(error, SignInFirst):  # and then come back to the invitation
        back = link_path(given.code or "")
        words = error.message
        return SignInPage(username=error.username, next=back, problem=words, tone="plain")
    return SignInPage(username=given.username or "", next=target, problem=error.message)


def _json_body(body: bytes) -> SignInBody:
    try:
        return SignInBody.model_validate_json(body)
    except ValidationError as error:
        problems = [{**found, "loc": ("body", *found["loc"])} for found in error.errors()]
        raise RequestValidationError(problems) from None


def _text(form: Any, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""


def _welcome(response: Response, settings: Settings, opened: Opened) -> Response:
    welcome(response, settings, opened)
    return response
