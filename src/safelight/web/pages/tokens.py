"""An organization's tokens, and how programs use them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Grant, Role, Token, digest
from safelight.accounts.guard import Access, AsAdmin, AsViewer
from safelight.accounts.tokens import MOST_NAME_CHARACTERS, Tokens
from safelight.accounts.uses import repo as uses_repo
from safelight.errors import InvalidRequest, SafelightError
from safelight.http.frame import ClockDep, SettingsDep, provided, services
from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.settings import Settings
from safelight.web.rendering import Pages
from safelight.web.session_cookie import show_once, to_show_once, was_shown
from safelight.web.settings.frame import SettingsPage, address_of, role_in, saved

router = APIRouter(include_in_schema=False)

PER_PAGE = 100
_TOKEN = "token"  # noqa: S105 - what is shown once
_DAY_MS = 86_400_000
_LIVES: Final = {"": "never", "7": "after a week", "30": "after 30 days", "90": "after 90 days",
                 "365": "after a year"}  # fmt: skip

TokensDep = Annotated[Tokens, provided(Tokens)]


@dataclass(frozen=True, slots=True)
class TokenRow:
    token: Token
    used_at: int | None
    ended: bool


@dataclass(frozen=True, slots=True)
class NewToken:
    token: Token
    secret: str


@dataclass(frozen=True, slots=True)
class TypedToken:
    """What stands in the form."""

    name: str = ""
    role: str = "member"
    days: str = ""


@dataclass(frozen=True, kw_only=True)
class TokensPage(SettingsPage):
    template: ClassVar[str] = "settings_tokens.html"
    section: ClassVar[str] = "tokens"
    rows: list[TokenRow]
    more: str | None
    new: NewToken | None
    typed: TypedToken
    public: str  # where the API is
    longest_name: int = MOST_NAME_CHARACTERS

    @property
    def lives(self) -> dict[str, str]:
        return _LIVES


@router.get("/app/{org}/settings/tokens")
async def tokens_page(
    request: Request,
    access: AsViewer,
    settings: SettingsDep,
    cursor: str | None = None,
    saved: bool = False,
) -> Response:
    new = await _new_token(request, access)
    response = await _render(request, access, cursor=cursor, saved=saved, new=new)
    if new:
        was_shown(response, settings, _TOKEN, address_of(access.organization, "tokens"))
    return response


@router.post("/app/{org}/settings/tokens")
async def make_token(
    request: Request,
    access: AsAdmin,
    tokens: TokensDep,
    clock: ClockDep,
    settings: SettingsDep,
    name: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "",
    days: Annotated[str, Form()] = "",
) -> Response:
    """Leads on to the page, which shows the token this once: it is kept nowhere."""
    organization = access.organization
    try:
        _, secret = await tokens.make(
            organization,
            Grant(role_in(role)),
            name=name.strip(),
            maker=access.caller,
            expires_at=_end(days, clock),
        )
    except SafelightError as error:
        typed = TypedToken(name, role, days)
        return await _render(request, access, problem=error, typed=typed)
    here = address_of(organization, "tokens")
    response = RedirectResponse(here, 303)
    show_once(response, settings, _TOKEN, secret, here)
    return response


@router.post("/app/{org}/settings/tokens/{token_id}/revoke")
async def revoke_token(
    token_id: str, request: Request, access: AsAdmin, tokens: TokensDep
) -> Response:
    try:
        await tokens.revoke(token_id, organization=access.organization, actor=access.caller)
    except SafelightError as error:
        return await _render(request, access, problem=error)
    return saved(access.organization, "tokens")


def _end(days: str, clock: Clock) -> int | None:
    if days not in _LIVES:
        raise InvalidRequest("Choose one of the times in the list.")
    return clock.now_ms() + int(days) * _DAY_MS if days else None


async def _new_token(request: Request, access: Access) -> NewToken | None:
    """Only to whoever made it."""
    secret = to_show_once(request, _TOKEN)
    if secret is None:
        return None
    registry = services(request)
    now = registry.get(Clock).now_ms()
    found = await repo.token_with(registry.get(Database), digest(secret), now)
    if found is None or found.organization != access.organization:
        return None
    return NewToken(found, secret) if found.maker_user == access.caller.id else None


async def _render(
    request: Request,
    access: Access,
    *,
    cursor: str | None = None,
    saved: bool = False,
    new: NewToken | None = None,
    problem: SafelightError | None = None,
    typed: TypedToken | None = None,
) -> Response:
    registry, organization = services(request), access.organization
    rows, more = await _rows(request, access, cursor)
    public_url = registry.get(Settings).public_url or str(request.base_url)
    page = TokensPage(
        organization=organization,
        role=access.caller.organizations[organization],
        saved=saved,
        problem=problem.message if problem else None,
        rows=rows,
        more=more,
        new=new,
        typed=typed or TypedToken(name=f"{access.caller.name}’s token"),
        public=public_url.rstrip("/"),
    )
    status = problem.status if problem else 200
    return await registry.get(Pages).render(request, page, status)


async def _rows(
    request: Request, access: Access, cursor: str | None
) -> tuple[list[TokenRow], str | None]:
    """For admins, and the cursor of what follows."""
    registry, organization = services(request), access.organization
    if access.caller.organizations[organization] is not Role.ADMIN:
        return [], None
    db, cursors, now = registry.get(Database), registry.get(Cursors), registry.get(Clock).now_ms()
    purpose = f"tokens-page:{organization}"
    key = cursors.read(purpose, cursor)
    before = (key[0], key[1]) if key else None
    found = await repo.tokens(db, organization, before=before, limit=PER_PAGE + 1)
    shown = found[:PER_PAGE]
    uses = await uses_repo.last_uses(db, [one.id for one in shown])
    rows = [
        TokenRow(
            one,
            uses.get(one.id),
            one.revoked_at is not None or (one.expires_at is not None and one.expires_at <= now),
        )
        for one in shown
    ]
    last = shown[-1] if len(found) > PER_PAGE else None
    return rows, cursors.make(purpose, [last.created_at, last.id]) if last else None
