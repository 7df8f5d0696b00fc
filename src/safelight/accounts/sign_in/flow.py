"""Coming in and going out. Each way in makes a session of its own and ends the one the browser
brought along, so that a cookie planted before sign-in is worth nothing after it.

Ten failed attempts in a quarter of an hour are too many, per user and per address. An attempt
counts as failed from the moment it begins until it succeeds. A success takes back that attempt and
forgets the user's failures, but never the address's other ones: whoever owns one account could
otherwise wipe the count and go on guessing at all the others.
Known gap: anyone can lock a username out for a quarter of an hour. Those already signed in stay so,
and a sign-in link opens the door meanwhile.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from safelight.accounts import repo as accounts_repo
from safelight.accounts.access import User, digest, is_username
from safelight.accounts.guard import SESSION_MS, Credentials
from safelight.accounts.passwords import Passwords, check_new_password
from safelight.accounts.repo import Executor
from safelight.accounts.sign_in import repo
from safelight.errors import RateLimited, Unauthenticated
from safelight.infra.activity import Unit, Units
from safelight.infra.injected import Ids

LINK_MS = 24 * 3600 * 1000
WINDOW_MS = 15 * 60 * 1000
MOST_FAILURES = 10


class WrongPassword(Unauthenticated):
    """The username or the password is wrong."""


class DeadLink(Unauthenticated):
    """This sign-in link was used already or is older than a day. Sign in with your password, or
    ask for a new link."""


@dataclass(frozen=True)
class SignIn:
    units: Units
    ids: Ids
    credentials: Credentials
    passwords: Passwords

    async def with_password(
        self, username: str, password: str, *, address: str | None, cookie: str | None
    ) -> str:
        """Returns the cookie of the new session."""
        attempt = await self._begin_attempt(username, address)
        user = None
        if is_username(username):
            user = await accounts_repo.user_named(self.units.db, username)
        stored = user.password_hash if user and user.revoked_at is None else None
        if not await self.passwords.verify(stored, password) or user is None:
            raise WrongPassword
        async with self.units.open("") as unit:
            opened = await self._open_session(unit, user.id, cookie, password_hash=stored)
            await repo.clear_failures(unit.connection, attempt, f"user:{username}")
        return opened

    async def with_code(self, code: str, *, cookie: str | None) -> str:
        """The printed link; used up in the transaction that makes the session, or not at all."""
        async with self.units.open("") as unit:
            user_id = await repo.use_link(unit.connection, digest(code), unit.now)
            if user_id is None:
                raise DeadLink
            return await self._open_session(unit, user_id, cookie)

    async def out(self, cookie: str) -> None:
        await accounts_repo.end_session(self.units.db, self.credentials.session_digest(cookie))

    async def change_password(
        self, user_id: str, *, current: str | None, new: str, address: str | None
    ) -> str:
        """Asks for the present password if there is one. Ends every session of the user and
        returns the cookie of a new one."""
        user = await accounts_repo.user(self.units.db, user_id)
        if user is None:
            raise Unauthenticated
        check_new_password(new, user.username)
        attempt = await self._confirm(user, current, address)
        password_hash = await self.passwords.hash(new)
        async with self.units.open("") as unit:
            if attempt is not None:
                await repo.clear_failures(unit.connection, attempt, f"user:{user.username}")
            await accounts_repo.set_password(unit.connection, user.id, password_hash)
            await accounts_repo.end_sessions_of(unit.connection, user.id)
            return await self._open_session(unit, user.id, None)

    async def _confirm(self, user: User, current: str | None, address: str | None) -> str | None:
        if user.password_hash is None:
            return None
        attempt = await self._begin_attempt(user.username, address)
        if not await self.passwords.verify(user.password_hash, current or ""):
            raise WrongPassword("The present password is wrong.")
        return attempt

    async def _begin_attempt(self, username: str, address: str | None) -> str:
        """Counts the attempt as failed until it succeeds, or refuses it."""
        attempt, counted = self.ids.uuid4(), subjects(username, address)
        async with self.units.open("") as unit:
            now, since = unit.now, unit.now - WINDOW_MS
            await repo.lock_attempts(unit.connection, counted)
            failures = await repo.failures_since(unit.connection, counted, since)
            waits = [wait_seconds(times, now) for times in failures.values()]
            if wait := max((w for w in waits if w is not None), default=None):
                raise RateLimited(
                    "Too many failed sign-ins. Wait a quarter of an hour, or use a sign-in link.",
                    retry_after=wait,
                )
            await repo.add_failure(unit.connection, attempt, counted, now)
        return attempt

    async def _open_session(
        self,
        unit: Unit,
        user_id: str,
        old_cookie: str | None,
        password_hash: str | None = None,
    ) -> str:
        now, cookie = unit.now, self.ids.secret()
        user = await accounts_repo.lock_user(unit.connection, user_id)
        # Revoked, or given another password, while we were checking the old one.
        if (
            user is None
            or user.revoked_at
            or (password_hash or user.password_hash) != user.password_hash
        ):
            raise WrongPassword
        if old_cookie:
            await accounts_repo.end_session(
                unit.connection, self.credentials.session_digest(old_cookie)
            )
        await repo.purge_expired(unit.connection, now, now - WINDOW_MS)
        key = self.credentials.session_digest(cookie)
        await accounts_repo.add_session(unit.connection, key, user_id, now, now + SESSION_MS)
        return cookie


async def make_link(db: Executor, ids: Ids, user_id: str, now: int) -> str:
    """The path of a link that signs this user in, once, within a day."""
    code = ids.secret()
    await repo.add_link(db, digest(code), user_id, now, now + LINK_MS)
    return f"/login?code={code}"


def subjects(username: str, address: str | None) -> list[str]:
    """What an attempt counts against, sorted: locks are taken in this order."""
    counted = [f"address:{_neighbourhood(address)}"] if address else []
    if is_username(username):
        counted.append(f"user:{username}")
    return sorted(counted)


def wait_seconds(failures: Sequence[int], now_ms: int) -> int | None:
    """How long one subject has to wait, given the times of its recent failures."""
    if len(failures) < MOST_FAILURES:
        return None
    tenth_last = sorted(failures)[-MOST_FAILURES]
    return max(1, -(-(tenth_last + WINDOW_MS - now_ms) // 1000))


def _neighbourhood(address: str) -> str:
    """One IPv6 customer has a /64 to choose addresses from, so a /64 counts as one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
