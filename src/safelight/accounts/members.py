"""Organizations, and who belongs to them."""

from dataclasses import dataclass

from safelight.accounts import repo
from safelight.accounts.access import Caller, Role
from safelight.accounts.changes import Changes
from safelight.accounts.repo import Member, User
from safelight.accounts.sign_in.attempts import is_username
from safelight.accounts.sign_in.flow import make_link
from safelight.errors import Conflict, InvalidRequest, NameTaken, NotFound
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach


class LastAdmin(Conflict):
    """This is the organization's last admin. Make somebody else an admin first."""


class UnknownMember(NotFound):
    """There is no such member."""


class UnknownUser(NotFound):
    """There is no such user. `safelight users list` shows them."""


@dataclass(frozen=True)
class Members:
    changes: Changes

    async def put(
        self, organization: str, username: str, role: Role, *, actor: Caller
    ) -> tuple[Member, str | None]:
        """A username nobody has becomes a new user, and only then a sign-in link comes back: an
        admin must not get one into somebody else's account."""
        _check_username(username)
        about = {"subject": f"user:{username}", "kind": "member_put", "role": role}
        async with self.changes.to(organization, actor=actor, **about) as change:
            fresh, user = await self._ensure_user(change, username)
            if user.revoked_at is not None:
                raise Conflict("That user was revoked on this server; its operator can undo it.")
            if role is not Role.ADMIN:
                await _keep_an_admin(change, organization, user)
            link = await self._link(change, user) if fresh else None
            member = await self._give(change, organization, user, role)
        return member, link

    async def remove(self, organization: str, username: str, *, actor: Caller) -> None:
        about = {"subject": f"user:{username}", "kind": "member_removed"}
        async with self.changes.to(organization, actor=actor, **about) as change:
            user = await repo.user_named(change, username) if is_username(username) else None
            if user is None or organization not in user.roles:
                raise UnknownMember
            await _keep_an_admin(change, organization, user)
            await reach("accounts.remove_member")
            await repo.remove_member(change, organization, user.id)

    async def welcome(
        self, username: str, organization: str, role: Role, *, operator: bool = False
    ) -> str:
        """The command line's way: makes the user or brings a revoked one back, gives the role, and
        returns a sign-in link in any case, also for somebody who lost the password."""
        _check_username(username)
        about = {"subject": f"user:{username}", "kind": "member_put", "role": role}
        async with self.changes.to(organization, actor=None, **about) as change:
            _, user = await self._ensure_user(change, username)
            await reach("accounts.reinstate_user")
            await repo.reinstate_user(change, user.id, operator=operator or user.operator)
            await self._give(change, organization, user, role)
            return await self._link(change, user)

    async def revoke_user(self, username: str) -> None:
        """Ends sessions, links, memberships and tokens; the name can be welcomed again."""
        user = await repo.user_named(self.changes.db, username) if is_username(username) else None
        if user is None:
            raise UnknownUser
        async with self.changes.db.transaction() as connection:
            await reach("accounts.revoke_user")
            await repo.revoke_user(connection, user.id, self.changes.clock.now_ms())
            for organization in user.roles:
                subject = f"user:{username}"
                await self.changes.tell(connection, organization, subject, "member_removed", None)

    async def make_organization(self, organization: str) -> None:
        async with self.changes.db.transaction() as connection:
            now = self.changes.clock.now_ms()
            await reach("accounts.add_organization")
            if not await repo.add_organization(connection, organization, now):
                raise NameTaken(f"The organization {organization} exists already.")
            subject = f"organization:{organization}"
            await self.changes.tell(connection, organization, subject, "organization_made", None)

    async def close_organization(self, organization: str) -> None:
        """Nobody gets in any more; everything stored stays, and a new member opens it again."""
        about = {"subject": f"organization:{organization}", "kind": "organization_closed"}
        async with self.changes.to(organization, actor=None, **about) as change:
            await reach("accounts.remove_all_members")
            await repo.remove_all_members(change, organization)
            await reach("accounts.revoke_all_tokens")
            await repo.revoke_all_tokens(change, organization, self.changes.clock.now_ms())

    async def _ensure_user(self, connection: Connection, username: str) -> tuple[bool, User]:
        """Whether the user is new, and the user."""
        user_id = self.changes.ids.short("usr")
        await reach("accounts.add_user")
        fresh = await repo.add_user(connection, user_id, username, self.changes.clock.now_ms())
        user = await repo.user_named(connection, username)
        if user is None:
            raise UnknownUser
        return fresh, user

    async def _give(
        self, connection: Connection, organization: str, user: User, role: Role
    ) -> Member:
        now = self.changes.clock.now_ms()
        await reach("accounts.put_member")
        return await repo.put_member(connection, organization, user.id, role, now)

    async def _link(self, connection: Connection, user: User) -> str:
        return await make_link(connection, self.changes.clock, self.changes.ids, user.id)


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
