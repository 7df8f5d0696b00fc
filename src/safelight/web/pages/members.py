"""Who belongs to an organization, and who is invited: all of it sees that, admins change it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts import repo
from safelight.accounts.access import Invitation, Member, Role, digest, is_username
from safelight.accounts.guard import Access, AsAdmin, AsViewer
from safelight.accounts.invitations import repo as invitations_repo
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.members import Members
from safelight.accounts.sign_in.links import link_path
from safelight.errors import InvalidRequest, NameTaken, SafelightError
from safelight.http.frame import SettingsDep, provided, services
from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.settings import Settings
from safelight.web.rendering import Pages
from safelight.web.session_cookie import show_once, to_show_once, was_shown
from safelight.web.settings.frame import SettingsPage, address_of, role_in, saved

router = APIRouter(include_in_schema=False)

PER_PAGE = 100
_MOST_INVITATIONS = 500
_LINK = "link"  # shown once

MembersDep = Annotated[Members, provided(Members)]


@dataclass(frozen=True, slots=True)
class MemberRow:
    member: Member
    seen_at: int | None


@dataclass(frozen=True, slots=True)
class NewLink:
    invitation: Invitation
    address: str


@dataclass(frozen=True, kw_only=True)
class MembersPage(SettingsPage):
    template: ClassVar[str] = "settings_members.html"
    section: ClassVar[str] = "members"
    me: str
    rows: list[MemberRow]
    more: str | None
    invitations: list[Invitation]
    new: NewLink | None
    typed: str = ""


@router.get("/app/{org}/settings")
async def members_page(
    request: Request,
    access: AsViewer,
    settings: SettingsDep,
    cursor: str | None = None,
    saved: bool = False,
) -> Response:
    new = await _new_link(request, access)
    response = await _render(request, access, cursor=cursor, saved=saved, new=new)
    if new:
        was_shown(response, settings, _LINK, address_of(access.organization, "members"))
    return response


@router.post("/app/{org}/settings/members")
async def invite(
    request: Request,
    access: AsAdmin,
    members: MembersDep,
    settings: SettingsDep,
    username: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "",
) -> Response:
    name = username.strip().lower()
    try:
        await _check_is_new(request, access, name)
        return await _put(access, members, settings, name, role)
    except SafelightError as error:
        return await _render(request, access, problem=error, typed=username)


@router.post("/app/{org}/settings/members/{username}/role")
async def change_role(
    username: str,
    request: Request,
    access: AsAdmin,
    members: MembersDep,
    settings: SettingsDep,
    role: Annotated[str, Form()] = "",
) -> Response:
    try:
        return await _put(access, members, settings, username, role)
    except SafelightError as error:
        return await _render(request, access, problem=error)


@router.post("/app/{org}/settings/members/{username}/remove")
async def remove(username: str, request: Request, access: AsAdmin, members: MembersDep) -> Response:
    try:
        await members.remove(access.organization, username, actor=access.caller)
    except SafelightError as error:
        return await _render(request, access, problem=error)
    if access.caller.kind == "user" and username == access.caller.name:
        return RedirectResponse("/", 303)  # they see nothing here any more
    return saved(access.organization, "members")


@router.post("/app/{org}/settings/invitations/{username}/withdraw")
async def withdraw(
    username: str,
    request: Request,
    access: AsAdmin,
    invitations: Annotated[Invitations, provided(Invitations)],
) -> Response:
    try:
        await invitations.withdraw(access.organization, username, actor=access.caller)
    except SafelightError as error:
        return await _render(request, access, problem=error)
    return saved(access.organization, "members")


async def _check_is_new(request: Request, access: Access, name: str) -> None:
    if not is_username(name):
        raise InvalidRequest(
            "A username has 1 to 64 characters: lower-case letters a to z, digits, dots, "
            "underscores and hyphens."
        )
    user = await repo.user_named(services(request).get(Database), name)
    if user is not None and access.organization in user.roles:
        raise NameTaken(f"{name} is a member already. Their role is changed in the list.")


async def _put(
    access: Access, members: Members, settings: Settings, username: str, role: str
) -> Response:
    """A new role, or else an invitation, whose link is shown once."""
    organization = access.organization
    put = await members.put(organization, username, role_in(role), actor=access.caller)
    if isinstance(put, Member):
        return saved(organization, "members")
    response, (_, link) = RedirectResponse(address_of(organization, "members"), 303), put
    code = link.removeprefix(link_path(""))
    show_once(response, settings, _LINK, code, address_of(organization, "members"))
    return response


async def _new_link(request: Request, access: Access) -> NewLink | None:
    code = to_show_once(request, _LINK)
    if code is None:
        return None
    registry = services(request)
    found = await invitations_repo.with_digest(
        registry.get(Database), digest(code), registry.get(Clock).now_ms()
    )
    if found is None or found.organization != access.organization:
        return None
    public_url = registry.get(Settings).public_url or str(request.base_url)
    return NewLink(found, public_url.rstrip("/") + link_path(code))


async def _render(
    request: Request,
    access: Access,
    *,
    cursor: str | None = None,
    saved: bool = False,
    new: NewLink | None = None,
    problem: SafelightError | None = None,
    typed: str = "",
) -> Response:
    registry, organization = services(request), access.organization
    rows, more = await _rows(request, access, cursor)
    role = access.caller.organizations[organization]
    page = MembersPage(
        organization=organization,
        role=role,
        saved=saved,
        problem=problem.message if problem else None,
        me=access.caller.name if access.caller.kind == "user" else "",
        rows=rows,
        more=more,
        invitations=[],
        new=new,
        typed=typed,
    )
    if page.administers:
        standing = await invitations_repo.of_organization(
            registry.get(Database),
            organization,
            registry.get(Clock).now_ms(),
            after=None,
            limit=_MOST_INVITATIONS,
        )
        page.invitations.extend(standing)
    status = problem.status if problem else 200
    return await registry.get(Pages).render(request, page, status)


async def _rows(
    request: Request, access: Access, cursor: str | None
) -> tuple[list[MemberRow], str | None]:
    """And the cursor of what follows. When somebody was seen is for admins."""
    registry, organization = services(request), access.organization
    db, cursors, purpose = registry.get(Database), registry.get(Cursors), f"people:{organization}"
    after = (cursors.read(purpose, cursor) or [None])[0]
    found = await repo.members(db, organization, after=after, limit=PER_PAGE + 1)
    shown, seen = found[:PER_PAGE], dict[str, int]()
    if access.caller.organizations[organization] is Role.ADMIN:
        seen = await repo.last_seen(db, organization, [one.username for one in shown])
    rows = [MemberRow(one, seen.get(one.username)) for one in shown]
    more = len(found) > PER_PAGE
    return rows, cursors.make(purpose, [shown[-1].username]) if more else None
