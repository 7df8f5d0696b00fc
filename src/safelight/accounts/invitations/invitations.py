"""What becomes of an invitation: accepted, declined, withdrawn. Made by `Members.put`, whoever the
username belongs to and whether or not it does.

To accept takes both the link and the account. The link alone would let an admin into somebody
else's account; the account alone would let whoever took a username first into every organization
that means another person by it. A username nobody has becomes that of whoever brings the link, and
so does one whose owner left before choosing a password: nothing opens that account any more. If it
belongs to another organization, it is for the admins there to remove it first, or a link from here
would lead to them.
"""

from dataclasses import dataclass

from safelight.accounts import repo as accounts_repo
from safelight.accounts.access import Caller, Invitation, User, as_actor, digest, is_username
from safelight.accounts.invitations import repo
from safelight.accounts.members import end_unused_users, hold_organization, member_line
from safelight.accounts.sign_in import repo as sign_in_repo
from safelight.accounts.sign_in.links import DeadLink
from safelight.errors import NotFound, Unauthenticated
from safelight.infra.activity import Unit, Units
from safelight.infra.history import Line
from safelight.infra.injected import Ids


class UnknownInvitation(NotFound):
    """There is no such invitation."""


class SignInFirst(Unauthenticated):
    """Sign in under the username that the invitation names, then accept it."""

    def __init__(self, username: str) -> None:
        super().__init__(
            f"Sign in as {username} to accept the invitation. If that account is not yours, ask "
            "for an invitation under another username."
        )
        self.username = username


@dataclass(frozen=True)
class Invitations:
    units: Units
    ids: Ids

    async def behind(self, code: str) -> Invitation | None:
        """Looking uses nothing up."""
        return await repo.with_digest(self.units.db, digest(code), self.units.clock.now_ms())

    async def to(self, username: str) -> list[Invitation]:
        return await repo.of_user(self.units.db, username, self.units.clock.now_ms())

    async def withdraw(self, organization: str, username: str, *, actor: Caller) -> None:
        await self._remove(organization, username, actor, "member_invitation_withdrawn")

    async def decline(self, organization: str, *, user: Caller) -> None:
        await self._remove(organization, user.name, user, "member_invitation_declined")

    async def _remove(self, organization: str, username: str, actor: Caller, kind: str) -> None:
        if not is_username(username):
            raise UnknownInvitation
        async with self.units.open(organization) as unit:
            if not await repo.remove(unit.connection, organization, username):
                raise UnknownInvitation
            unit.tell(member_line(username, kind, as_actor(actor)))

    async def accept(self, unit: Unit, code: str, caller: Caller | None) -> User:
        """In a unit of the invitation's organization, whose members wait meanwhile. Returns who is
        a member now; `caller` is who is signed in."""
        await hold_organization(unit)
        invitation = await repo.take(unit.connection, digest(code), unit.now)
        if invitation is None:
            raise DeadLink
        user = await self._taker(unit, invitation, caller)
        if invitation.organization not in user.roles:  # the command line may have been faster
            await accounts_repo.put_member(
                unit.connection, invitation.organization, user.id, invitation.role, unit.now
            )
        unit.tell(_joined(invitation))
        return user

    async def _taker(self, unit: Unit, invitation: Invitation, caller: Caller | None) -> User:
        connection, username = unit.connection, invitation.username
        await end_unused_users(unit)
        fresh = await accounts_repo.add_user(connection, self.ids.short("usr"), username, unit.now)
        user = await accounts_repo.user_named(connection, username)
        if user is None:
            raise SignInFirst(username)
        if fresh or (caller and caller.id == user.id):
            return user
        here = invitation.organization
        if not await sign_in_repo.is_unreachable(connection, user.id, here, unit.now):
            raise SignInFirst(username)
        return user


def _joined(invitation: Invitation) -> Line:
    actor = {"type": "user", "name": invitation.username}
    return member_line(invitation.username, "member_put", actor, role=invitation.role)
