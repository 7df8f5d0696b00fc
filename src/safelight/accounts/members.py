"""Organizations, and who belongs to them. An organization's members and tokens change one after the
other: each change holds the organization until it commits.

The actor is None for the command line, whose authority is access to the database itself.
"""

from dataclasses import dataclass

from safelight.accounts import repo
from safelight.accounts.access import Caller, Member, Role, User, as_actor, is_username
from safelight.accounts.sign_in.flow import make_link
from safelight.errors import Conflict, InvalidRequest, NameTaken, NotFound
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Connection
from safelight.infra.history import Line
from safelight.infra.injected import Ids


class UnknownOrganization(NotFound):
    """There is no such organization. `safelight organizations list` shows them."""


class LastAdmin(Conflict):
    """This is the organization's last admin. Make somebody else an admin first."""


class UnknownMember(NotFound):
    """There is no such member."""


class UnknownUser(NotFound):
    """There is no such user. `safelight users list` shows them."""


@dataclass(frozen=True)
class Members:
    units: Units
    ids: Ids

    async def put(
        self, organization: str, username: str, role: Role, *, actor: Caller
    ) -> tuple[Member, str | None]:
        """A username nobody has becomes a new user, and only then a sign-in link comes back: an
        admin must not get one into somebody else's account."""
        _check_username(username)
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            fresh, user = await self._ensure_user(unit, username)
            if user.revoked_at is not None:
                raise Conflict("That user was revoked on this server; its operator can undo it.")
            if role is not Role.ADMIN:
                await _keep_an_admin(unit.connection, organization, user)
            link = await self._link(unit, user) if fresh else None
            member = await repo.put_member(unit.connection, organization, user.id, role, unit.now)
            unit.tell(_line(username, "member_put", actor, role=role))
        return member, link

    async def remove(self, organization: str, username: str, *, actor: Caller) -> None:
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            known = is_username(username)
            user = await repo.user_named(unit.connection, username) if known else None
            if user is None or organization not in user.roles:
                raise UnknownMember
            await _keep_an_admin(unit.connection, organization, user)
            await repo.remove_member(unit.connection, organization, user.id)
            unit.tell(_line(username, "member_removed", actor))

    async def welcome(
        self, username: str, organization: str, role: Role, *, operator: bool = False
    ) -> str:
        """The command line's way: makes the user or brings a revoked one back, gives the role, and
        returns a sign-in link in any case, also for somebody who lost the password."""
        _check_username(username)
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            _, user = await self._ensure_user(unit, username)
            operator = operator or user.operator
            await repo.reinstate_user(unit.connection, user.id, operator=operator)
            await repo.put_member(unit.connection, organization, user.id, role, unit.now)
            link = await self._link(unit, user)
            unit.tell(_line(username, "member_put", None, role=role))
        return link

    async def revoke_user(self, username: str) -> None:
        """Ends sessions, links, memberships and tokens; the name can be welcomed again."""
        user = await repo.user_named(self.units.db, username) if is_username(username) else None
        if user is None:
            raise UnknownUser
        async with self.units.open("") as unit:
            await repo.revoke_user(unit.connection, user.id, unit.now)
            for organization in user.roles:
                unit.tell_others(organization, _line(username, "member_removed", None))

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

    async def _link(self, unit: Unit, user: User) -> str:
        return await make_link(unit.connection, self.ids, user.id, unit.now)


async def hold_organization(unit: Unit) -> None:
    """The first statement of every change of its members and tokens."""
    if not await repo.lock_organization(unit.connection, unit.organization):
        raise UnknownOrganization


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


def _line(username: str, kind: str, actor: Caller | None, **data: str) -> Line:
    return Line(f"user:{username}", kind, {**data, "actor": as_actor(actor)})
