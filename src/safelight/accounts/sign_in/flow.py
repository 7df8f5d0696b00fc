"""Coming in and going out. Each way in makes a session of its own and ends the one the browser
brought along, so that a cookie planted before sign-in is worth nothing after it.
"""

from dataclasses import dataclass, field

from safelight.accounts import repo as accounts_repo
from safelight.accounts.access import Invitation, User, Whence, digest, is_username
from safelight.accounts.crowd import Crowd
from safelight.accounts.guard import SESSION_MS, Credentials
from safelight.accounts.invitations.invitations import Invitations
from safelight.accounts.members import end_unused_users
from safelight.accounts.passwords import Passwords, check_new_password
from safelight.accounts.sign_in import repo
from safelight.accounts.sign_in.attempts import (
    WINDOW_MS,
    Attempt,
    Attempts,
    of_address,
    of_change,
    of_device,
    of_stranger,
)
from safelight.accounts.sign_in.links import LINK_MS, DeadLink
from safelight.errors import Unauthenticated
from safelight.infra.activity import Unit, Units
from safelight.infra.injected import Ids

_NOWHERE = Whence()
DEVICE_MS = 400 * 24 * 3600 * 1000  # no browser keeps a cookie for longer


class WrongPassword(Unauthenticated):
    """The username or the password is wrong."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What the browser is given: the cookie of its session, and the one it is known by later."""

    cookie: str
    device: str
    wants_password: bool = False  # there is none, or it may be lost


@dataclass(frozen=True)
class SignIn:
    units: Units
    ids: Ids
    credentials: Credentials
    passwords: Passwords
    attempts: Attempts
    invitations: Invitations
    crowd: Crowd = field(default_factory=Crowd)

    async def with_password(
        self,
        username: str,
        password: str,
        *,
        address: str | None,
        cookie: str | None,
        device: str | None = None,
        agent: str | None = None,
    ) -> Opened:
        known = await self._is_known(username, device)
        if known:
            comer, subjects = f"user:{username}", of_device(username, digest(device or ""))
        else:
            comer, subjects = of_address(address), of_stranger(username, address)
        self.attempts.check(subjects)
        async with self.crowd.turn(comer, known=known):
            attempt = await self.attempts.begin(subjects)
            if known and not await self._is_still_known(username, device):
                attempt = await self.attempts.begin(of_stranger(username, address))
            whence = Whence(address, agent)
            return await self._guess(username, password, attempt, cookie, device, whence)

    async def _guess(
        self,
        username: str,
        password: str,
        attempt: Attempt,
        cookie: str | None,
        device: str | None,
        whence: Whence,
    ) -> Opened:
        user = None
        if is_username(username):
            user = await accounts_repo.user_named(self.units.db, username)
        stored = user.password_hash if user and user.revoked_at is None else None
        if not await self.passwords.verify(stored, password) or user is None:
            raise WrongPassword
        async with self.units.open("") as unit:
            opened = await self._open(unit, user.id, cookie, device, whence, password_hash=stored)
            await self.attempts.succeed(unit.connection, attempt)
        self.attempts.forget(attempt)
        return opened

    async def behind(self, code: str) -> str | Invitation | None:
        """What a link is for: the user it signs in, or an invitation. Looking uses nothing up."""
        now = self.units.clock.now_ms()
        username = await repo.user_of_link(self.units.db, digest(code), now)
        return username or await self.invitations.behind(code)

    async def with_code(
        self,
        code: str,
        *,
        cookie: str | None,
        device: str | None = None,
        whence: Whence = _NOWHERE,
    ) -> Opened:
        """A link, used up in the transaction that makes the session, or not at all. That of an
        invitation makes its user, or accepts it for whoever is signed in as that user."""
        if invitation := await self.invitations.behind(code):
            caller = await self.credentials.of_session(cookie) if cookie else None
            async with self.units.open(invitation.organization) as unit:
                user = await self.invitations.accept(unit, code, caller)
                return await self._open(unit, user.id, cookie, device, whence)
        async with self.units.open("") as unit:
            await repo.keep_user(unit.connection, digest(code))
            user_id = await repo.use_link(unit.connection, digest(code), unit.now)
            if user_id is None:
                raise DeadLink
            return await self._open(unit, user_id, cookie, device, whence, by_link=True)

    async def out(self, cookie: str) -> None:
        async with self.units.open("") as unit:
            await repo.end_session(unit.connection, self.credentials.session_digest(cookie))

    async def must_confirm(self, user: User, cookie: str | None) -> bool:
        """Whether a new password takes the present one: there is one, and its owner did not come by
        a link today, perhaps because it was lost."""
        if user.password_hash is None:
            return False
        key = self.credentials.session_digest(cookie or "")
        today = self.units.clock.now_ms() - LINK_MS
        return not await repo.came_by_link(self.units.db, key, user.id, today)

    async def change_password(
        self,
        user_id: str,
        *,
        current: str | None,
        new: str,
        cookie: str | None = None,
        device: str | None = None,
        whence: Whence = _NOWHERE,
    ) -> Opened:
        """Ends every session and link of the user, forgets where they signed in, and opens a
        session here."""
        async with self.crowd.turn(user_id, known=True):
            return await self._change_password(user_id, current, new, cookie, device, whence)

    async def _change_password(
        self,
        user_id: str,
        current: str | None,
        new: str,
        cookie: str | None,
        device: str | None,
        whence: Whence,
    ) -> Opened:
        user = await accounts_repo.user(self.units.db, user_id)
        if user is None:
            raise Unauthenticated
        check_new_password(new, user.username)
        if await self.must_confirm(user, cookie):
            await self._confirm(user, current)
        password_hash = await self.passwords.hash(new)
        async with self.units.open("") as unit:
            await accounts_repo.set_password(unit.connection, user.id, password_hash)
            await repo.end_sessions_of(unit.connection, user.id)
            await repo.end_links_of(unit.connection, user.id)
            await repo.forget_devices_of(unit.connection, user.id)
            return await self._open(unit, user.id, None, device, whence)

    async def _confirm(self, user: User, current: str | None) -> None:
        attempt = await self.attempts.begin(of_change(user.username))
        if not await self.passwords.verify(user.password_hash, current or ""):
            raise WrongPassword("The present password is wrong.")
        await self.attempts.succeed(self.units.db, attempt)
        self.attempts.forget(attempt)

    async def _is_known(self, username: str, device: str | None) -> bool:
        """Whether it is a browser that has signed this user in before."""
        if not device or not is_username(username):
            return False
        return await repo.knows_device(self.units.db, digest(device), username)

    async def _is_still_known(self, username: str, device: str | None) -> bool:
        """Asked once an attempt is counted. If somebody else signed in there meanwhile, what was
        counted went with the browser to its new secret, and under the old one nobody meets it."""
        return await repo.still_knows_device(self.units.db, digest(device or ""), username)

    async def _open(
        self,
        unit: Unit,
        user_id: str,
        old_cookie: str | None,
        old_device: str | None,
        whence: Whence,
        *,
        password_hash: str | None = None,
        by_link: bool = False,
    ) -> Opened:
        now, cookie, device = unit.now, self.ids.secret(), self.ids.secret()
        user = await accounts_repo.lock_user(unit.connection, user_id)
        # Revoked, or given another password, while we were checking the old one.
        if (
            user is None
            or user.revoked_at
            or (password_hash or user.password_hash) != user.password_hash
        ):
            raise WrongPassword
        if old_cookie:
            await repo.end_session(unit.connection, self.credentials.session_digest(old_cookie))
        await self._sweep(unit)
        key, end = self.credentials.session_digest(cookie), now + SESSION_MS
        await repo.add_session(
            unit.connection, key, user_id, now, end, by_link=by_link, whence=whence
        )
        await self._renew_device(unit, user_id, old_device, device)
        return Opened(cookie, device, by_link or user.password_hash is None)

    async def _renew_device(self, unit: Unit, user_id: str, old: str | None, new: str) -> None:
        """What was counted there against others stays counted: whoever shares a browser with them
        could otherwise guess, sign in as himself, and guess again."""
        was, is_now = digest(old or ""), digest(new)
        others = await repo.renew_device(
            unit.connection, was if old else None, is_now, user_id, unit.now
        )
        moved = {of_device(name, was)[0]: of_device(name, is_now)[0] for name in others}
        if moved:
            await repo.move_failures(unit.connection, moved)

    async def _sweep(self, unit: Unit) -> None:
        """What has had its time goes whenever somebody comes in."""
        await end_unused_users(unit)
        await repo.purge_expired(
            unit.connection,
            unit.now,
            failures_before=unit.now - WINDOW_MS,
            devices_before=unit.now - DEVICE_MS,
        )
