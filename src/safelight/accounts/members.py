"""Organizations, and who belongs to them. An organization's members and tokens change one after the
other: each change holds the organization until it commits.

An admin changes what members hold, and invites everybody else: the answer is the same whether or
not there is such a user, and no role is anybody's before they have come for it (invitations/).

The actor is None for the command line, whose authority is access to the database itself.
"""

from dataclasses import dataclass

from safelight.accounts import repo
from safelight.accounts.access import (
    Caller,
    Invitation,
    Member,
    Role,
    User,
    as_actor,
    digest,
    is_username,
)
from safelight.accounts.invitations import repo as invitations_repo
from safelight.accounts.maker import maker_of
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.accounts.sign_in.links import LINK_MS, link_path, make_link
from safelight.errors import Conflict, InvalidRequest, NameTaken, NotFound
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Connection
from safelight.infra.history import SYSTEM, Line
from safelight.infra.injected import Ids


class UnknownOrganization(NotFound):
    """There is no such organization. `safelight organizations list` shows them."""


class LastAdmin(Conflict):
    """This is the organization's last admin. Make somebody else an admin first."""


class UnknownMember(NotFound):
    """There is no such member."""


class UnknownUser(NotFound):
    """There is no such user. `safelight users list` shows them."""


class AccountExists(Conflict):
    """There is such an account already, and whoever has its password would be operator of the whole
    server. If it is the one you mean, add --existing."""


@dataclass(frozen=True, slots=True)
class Welcomed:
    link: str
    account: User | None = None  # was there already, and is no member before its owner accepts


@dataclass(frozen=True)
class Members:
    units: Units
    ids: Ids

    async def put(
        self, organization: str, username: str, role: Role, *, actor: Caller
    ) -> Member | tuple[Invitation, str]:
        """The member with the role changed; else an invitation and its link."""
        _check_username(username)
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            user = await repo.user_named(unit.connection, username)
            if user is None or organization not in user.roles:
                return await self._invite(unit, username, role, actor)
            if role is not Role.ADMIN:
                await _keep_an_admin(unit.connection, organization, user)
            member = await repo.put_member(unit.connection, organization, user.id, role, unit.now)
            unit.tell(member_line(username, "member_put", as_actor(actor), role=role))
        return member

    async def _invite(
        self, unit: Unit, username: str, role: Role, actor: Caller | None
    ) -> tuple[Invitation, str]:
        maker, code = await maker_of(unit.connection, actor), self.ids.secret()
        end = unit.now + LINK_MS
        invitation = Invitation(
            unit.organization, username, role, maker.name, unit.now, min(end, maker.until or end)
        )
        await invitations_repo.put(unit.connection, invitation, maker, digest(code))
        unit.tell(member_line(username, "member_invited", as_actor(actor), role=role))
        return invitation, link_path(code)

    async def remove(self, organization: str, username: str, *, actor: Caller) -> None:
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            known = is_username(username)
            user = await repo.user_named(unit.connection, username) if known else None
            if user is None or organization not in user.roles:
                raise UnknownMember
            await _keep_an_admin(unit.connection, organization, user)
            await repo.remove_member(unit.connection, organization, user.id)
            unit.tell(member_line(username, "member_removed", as_actor(actor)))

    async def welcome(
        self,
        username: str,
        organization: str,
        role: Role,
        *,
        operator: bool = False,
        existing: bool = False,
    ) -> Welcomed:
        """The command line's way: makes the user or brings a revoked one back, gives the role, and
        returns a sign-in link in any case, also for a member who lost the password. A new user who
        does not come goes when the link does.

        An account that is no member's is invited: somebody else may have made it under this name,
        and have its password. `existing`: it may become operator all the same."""
        _check_username(username)
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            await end_unused_users(unit)
            new, user = await self._ensure_user(unit, username)
            taken = not new and user.revoked_at is None
            if taken and operator and not (existing or user.operator):
                raise AccountExists
            await repo.reinstate_user(unit.connection, user.id, operator=operator or user.operator)
            if taken and organization not in user.roles:
                _, link = await self._invite(unit, username, role, None)
                return Welcomed(link, user)
            return Welcomed(await self._let_in(unit, user, role, new=new))

    async def _let_in(self, unit: Unit, user: User, role: Role, *, new: bool) -> str:
        """With the role, by a sign-in link."""
        connection, organization = unit.connection, unit.organization
        await invitations_repo.remove(connection, organization, user.username)
        await sign_in_repo.expect_user(connection, user.id, unit.now + LINK_MS, new=new)
        await repo.put_member(connection, organization, user.id, role, unit.now)
        unit.tell(member_line(user.username, "member_put", as_actor(None), role=role))
        return await make_link(connection, self.ids, user.id, unit.now)

    async def revoke_user(self, username: str) -> None:
        """Ends sessions, links, memberships and tokens; the name can be welcomed again."""
        user = await repo.user_named(self.units.db, username) if is_username(username) else None
        if user is None:
            raise UnknownUser
        async with self.units.open("") as unit:
            await invitations_repo.remove_all_of(unit.connection, username)
            await repo.revoke_user(unit.connection, user.id, unit.now)
            line = member_line(username, "member_removed", as_actor(None))
            for organization in user.roles:
                unit.tell_others(organization, line)

    async def make_organization(self, organization: str) -> None:
        async with self.units.open(organization) as unit:
            if not await repo.add_organization(unit.connection, organization, unit.now):
                raise NameTaken(f"The organization {organization} exists already.")
            data = {"actor": as_actor(None)}
            unit.tell(Line(f"organization:{organization}", "organization_made", data))

    async def close_organization(self, organization: str) -> None:
        """Nobody gets in any more; everything stored stays, and a new member opens it again."""
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            await repo.remove_all_members(unit.connection, organization)
            await invitations_repo.remove_all_into(unit.connection, organization)
            await repo.revoke_all_tokens(unit.connection, organization, unit.now)
            data = {"actor": as_actor(None)}
            unit.tell(Line(f"organization:{organization}", "organization_closed", data))

    async def _ensure_user(self, unit: Unit, username: str) -> tuple[bool, User]:
        """Whether the user is new, and the user."""
        fresh = await repo.add_user(unit.connection, self.ids.short("usr"), username, unit.now)
        user = await repo.user_named(unit.connection, username)
        if user is None:
            raise UnknownUser
        return fresh, user


async def hold_organization(unit: Unit) -> None:
    """The first statement of every change of its members and tokens."""
    if not await repo.lock_organization(unit.connection, unit.organization):
        raise UnknownOrganization


async def end_unused_users(unit: Unit) -> None:
    """Those who were expected, and whose last link has ended."""
    for username, organization in await sign_in_repo.end_unused_users(unit.connection, unit.now):
        unit.tell_others(organization, member_line(username, "member_removed", SYSTEM))


async def _keep_an_admin(connection: Connection, organization: str, user: User) -> None:
    is_admin = user.roles.get(organization) is Role.ADMIN
    if is_admin and not await repo.other_admins(connection, organization, user.id):
        raise LastAdmin


def _check_username(username: str) -> None:
    if not is_username(username):
        raise InvalidRequest(
            "A username has 1 to 64 characters: lower-case letters a to z, digits, dots, "
            "underscores and hyphens."
        )


def member_line(username: str, kind: str, actor: dict[str, str], **data: str) -> Line:
    return Line(f"user:{username}", kind, {**data, "actor": actor})
