"""Who you are here: your password, where you are signed in, and where you belong."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Caller, Invitation, OpenSession, Role
from safelight.accounts.guard import COOKIE, AsUser, Credentials
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.members import Members
from safelight.accounts.origin import local_path
from safelight.accounts.passwords import LEAST_CHARACTERS
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.sign_in.sessions import Sessions
from safelight.errors import NotFound, SafelightError
from safelight.http.frame import SettingsDep, provided, services
from safelight.infra.db import Database
from safelight.settings import Settings
from safelight.web.agents import in_words
from safelight.web.rendering import Context, Pages, PagesDep
from safelight.web.session_cookie import clear_cookie

router = APIRouter(include_in_schema=False)

SessionsDep = Annotated[Sessions, provided(Sessions)]


@dataclass(frozen=True, slots=True)
class SessionRow:
    session: OpenSession
    words: str
    here: bool


@dataclass(frozen=True, kw_only=True)
class AccountPage(Context):
    template: ClassVar[str] = "account.html"
    title: str = "Account"
    username: str
    operator: bool
    has_password: bool
    confirms: bool
    least_characters: int = LEAST_CHARACTERS
    sessions: list[SessionRow]
    roles: dict[str, Role]
    invitations: list[Invitation]
    problem: str | None = None

    @property
    def elsewhere(self) -> int:
        return sum(not row.here for row in self.sessions)


@dataclass(frozen=True, kw_only=True)
class LeavingPage(Context):
    """Before somebody without a password signs out."""

    template: ClassVar[str] = "leaving.html"
    title: str = "Sign out"
    operator: bool


@router.get("/account")
async def account_page(request: Request, caller: AsUser) -> Response:
    return await _render(request, caller)


@router.get("/account/sign-out")
async def leaving_page(request: Request, caller: AsUser, pages: PagesDep) -> Response:
    return await pages.render(request, LeavingPage(operator=caller.operator))


@router.post("/account/sign-out")
async def sign_out(
    request: Request,
    caller: AsUser,
    settings: SettingsDep,
    flow: Annotated[SignIn, provided(SignIn)],
) -> Response:
    """Whether or not there is a password to come back with."""
    del caller
    await flow.out(request.cookies.get(COOKIE, ""))
    return _out(settings)


@router.post("/account/sessions/end")
async def end_session(
    caller: AsUser, sessions: SessionsDep, session: Annotated[str, Form()] = ""
) -> Response:
    await sessions.end(caller.id, session)
    return RedirectResponse("/account#sessions", 303)


@router.post("/account/sessions/end-others")
async def end_other_sessions(request: Request, caller: AsUser, sessions: SessionsDep) -> Response:
    await sessions.end_others(caller.id, request.cookies.get(COOKIE, ""))
    return RedirectResponse("/account#sessions", 303)


@router.post("/account/sessions/end-all")
async def end_all_sessions(
    caller: AsUser, settings: SettingsDep, sessions: SessionsDep
) -> Response:
    await sessions.end_all(caller.id)
    return _out(settings)


@router.post("/account/invitations/{org}/decline")
async def decline(
    org: str,
    caller: AsUser,
    invitations: Annotated[Invitations, provided(Invitations)],
    next_path: Annotated[str | None, Form(alias="next")] = None,
) -> Response:
    await invitations.decline(org, user=caller)
    return RedirectResponse(local_path(next_path), 303)


@router.post("/account/organizations/{org}/leave")
async def leave(
    org: str, request: Request, caller: AsUser, members: Annotated[Members, provided(Members)]
) -> Response:
    if org not in caller.organizations:
        raise NotFound
    try:
        await members.remove(org, caller.name, actor=caller)
    except SafelightError as error:
        return await _render(request, caller, error)
    return RedirectResponse("/account#organizations", 303)


def _out(settings: Settings) -> Response:
    response = RedirectResponse("/login", 303)
    clear_cookie(response, settings)
    return response


async def _render(
    request: Request, caller: Caller, problem: SafelightError | None = None
) -> Response:
    registry, cookie = services(request), request.cookies.get(COOKIE, "")
    user = await repo.user(registry.get(Database), caller.id)
    if user is None:
        raise NotFound
    mine = registry.get(Credentials).session_digest(cookie)
    rows = [
        SessionRow(one, in_words(one.whence.agent), one.digest == mine)
        for one in await registry.get(Sessions).of(caller.id)
    ]
    page = AccountPage(
        username=caller.name,
        operator=caller.operator,
        has_password=user.password_hash is not None,
        confirms=await registry.get(SignIn).must_confirm(user, cookie),
        sessions=sorted(rows, key=lambda row: not row.here),
        roles=user.roles,
        invitations=await registry.get(Invitations).to(caller.name),
        problem=problem.message if problem else None,
    )
    pages = registry.get(Pages)
    return await pages.render(request, page, problem.status if problem else 200)
