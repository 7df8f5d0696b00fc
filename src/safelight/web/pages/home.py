"""The first page: who you are here, how to send the first image, and what admins have left."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Caller, Grant, Invitation, Role
from safelight.accounts.guard import COOKIE, AsAdmin, AsAnyone, AsUser
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.passwords import LEAST_CHARACTERS
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.tokens import Tokens
from safelight.errors import InvalidRequest, SafelightError
from safelight.http.frame import provided, services
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.library.retention import repo as retention
from safelight.library.retention.lifecycle import in_words
from safelight.quotas import repo as quotas
from safelight.settings import Settings
from safelight.web.gauges import Gauge, gauges
from safelight.web.rendering import Context, Pages

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class NewToken:
    organization: str
    secret: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class HomePage(Context):
    template: ClassVar[str] = "home.html"
    title: str = "Home"
    caller: Caller
    address: str
    since: int | None
    asks_for_password: bool
    invitations: list[Invitation]
    quotas: dict[str, list[Gauge]]  # of organizations that this caller administers
    kept: dict[str, str]  # how long those keep their originals, if not for ever
    least_characters: int = LEAST_CHARACTERS
    new_token: NewToken | None = None
    problem: str | None = None

    @property
    def administered(self) -> list[str]:
        """Where this caller may make tokens."""
        return _administered(self.caller)

    @property
    def roles(self) -> list[Role]:
        return list(Role)


@router.get("/")
async def home(request: Request, caller: AsAnyone) -> Response:
    return await _render(request, caller)


@router.post("/app/{org}/tokens")
async def make_token(
    request: Request,
    access: AsAdmin,
    tokens: Annotated[Tokens, provided(Tokens)],
    name: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = Role.MEMBER,
) -> Response:
    """Answers with the page itself: the token is shown this once and kept nowhere."""
    try:
        asked = Grant(_role(role))
        _, secret = await tokens.make(
            access.organization, asked, name=name.strip(), maker=access.caller
        )
    except SafelightError as error:
        return await _render(request, access.caller, problem=error)
    new = NewToken(access.organization, secret, asked.role)
    return await _render(request, access.caller, new_token=new)


@router.post("/account/invitations/{org}/decline")
async def decline(
    org: str, caller: AsUser, invitations: Annotated[Invitations, provided(Invitations)]
) -> Response:
    await invitations.decline(org, user=caller)
    return RedirectResponse("/", 303)


async def _render(
    request: Request,
    caller: Caller,
    *,
    new_token: NewToken | None = None,
    problem: SafelightError | None = None,
) -> Response:
    registry = services(request)
    db, now = registry.get(Database), registry.get(Clock).now_ms()
    user = await repo.user(db, caller.id)  # None: a token is calling
    used = await quotas.quotas_of(db, _administered(caller), now)
    limits = await retention.days_of(db, _administered(caller))
    flow, cookie = registry.get(SignIn), request.cookies.get(COOKIE)
    page = HomePage(
        caller=caller,
        address=registry.get(Settings).public_url or str(request.base_url).rstrip("/"),
        since=user.created_at if user else None,
        asks_for_password=user is not None and not await flow.must_confirm(user, cookie),
        invitations=await registry.get(Invitations).to(caller.name) if user else [],
        quotas={organization: gauges(found) for organization, found in used.items()},
        kept={organization: in_words(days) for organization, days in limits.items()},
        new_token=new_token,
        problem=problem.message if problem else None,
    )
    return await registry.get(Pages).render(request, page, problem.status if problem else 200)


def _administered(caller: Caller) -> list[str]:
    return [name for name, role in caller.organizations.items() if role is Role.ADMIN]


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise InvalidRequest("Choose one of the roles in the list.") from None
