"""Coming in and going out. Each way in makes a session of its own and ends the one the browser
brought along, so that a cookie planted before sign-in is worth nothing after it.
"""

from dataclasses import dataclass

from safelight.accounts import repo as accounts_repo
from safelight.accounts.credentials import LINK_MS, SESSION_MS, Credentials, digest
from safelight.accounts.passwords import Passwords, check_new_password
from safelight.accounts.repo import Executor, User
from safelight.accounts.sign_in import attempts, repo
from safelight.errors import RateLimited, Unauthenticated
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock, Ids


class WrongPassword(Unauthenticated):
    """The username or the password is wrong."""


class DeadLink(Unauthenticated):
    """This sign-in link was used already or is older than a day. Sign in with your password, or
    ask for a new link."""


@dataclass(frozen=True)
class SignIn:
    db: Database
    clock: Clock
    ids: Ids
    credentials: Credentials
    passwords: Passwords

    async def with_password(
        self, username: str, password: str, *, address: str | None, cookie: str | None
    ) -> str:
        """Returns the cookie of the new session."""
        attempt = await self._begin_attempt(username, address)
        user = None
        if attempts.is_username(username):
            user = await accounts_repo.user_named(self.db, username)
        stored = user.password_hash if user and user.revoked_at is None else None
        if not await self.passwords.verify(stored, password) or user is None:
            raise WrongPassword
        async with self.db.transaction() as connection:
            opened = await self._open_session(connection, user.id, cookie, password_hash=stored)
            await reach("sign_in.forget_failures")
            await repo.forget_failures(connection, attempt, f"user:{username}")
        return opened

    async def with_code(self, code: str, *, cookie: str | None) -> str:
        """The printed link; used up in the transaction that makes the session, or not at all."""
        async with self.db.transaction() as connection:
            await reach("sign_in.use_link")
            user_id = await repo.use_link(connection, digest(code), self.clock.now_ms())
            if user_id is None:
                raise DeadLink
            return await self._open_session(connection, user_id, cookie)

    async def out(self, cookie: str) -> None:
        await reach("sign_in.end_session")
        await repo.end_session(self.db, self.credentials.session_digest(cookie))

    async def change_password(
        self, user_id: str, *, current: str | None, new: str, address: str | None
    ) -> str:
        """Asks for the present password if there is one. Ends every session of the user and
        returns the cookie of a new one."""
        user = await accounts_repo.user(self.db, user_id)
        if user is None:
            raise Unauthenticated
        check_new_password(new, user.username)
        attempt = await self._confirm(user, current, address)
        password_hash = await self.passwords.hash(new)
        async with self.db.transaction() as connection:
            if attempt is not None:
                await reach("sign_in.forget_failures")
                await repo.forget_failures(connection, attempt, f"user:{user.username}")
            await reach("sign_in.set_password")
            await accounts_repo.set_password(connection, user.id, password_hash)
            await reach("sign_in.end_sessions")
            await repo.end_sessions_of(connection, user.id)
            return await self._open_session(connection, user.id, None)

    async def _confirm(self, user: User, current: str | None, address: str | None) -> str | None:
        if user.password_hash is None:
            return None
        attempt = await self._begin_attempt(user.username, address)
        if not await self.passwords.verify(user.password_hash, current or ""):
            raise WrongPassword("The present password is wrong.")
        return attempt

    async def _begin_attempt(self, username: str, address: str | None) -> str:
        """Counts the attempt as failed until it succeeds, or refuses it."""
        now, attempt = self.clock.now_ms(), self.ids.uuid4()
        counted = attempts.subjects(username, address)
        since = now - attempts.WINDOW_MS
        async with self.db.transaction() as connection:
            await repo.lock_attempts(connection, counted)
            failures = await repo.failures_since(connection, counted, since)
            waits = [attempts.wait_seconds(times, now) for times in failures.values()]
            if wait := max((w for w in waits if w is not None), default=None):
                raise RateLimited(
                    "Too many failed sign-ins. Wait a quarter of an hour, or use a sign-in link.",
                    retry_after=wait,
                )
            await reach("sign_in.add_failure")
            await repo.add_failure(connection, attempt, counted, now)
        return attempt

    async def _open_session(
        self,
        connection: Connection,
        user_id: str,
        old_cookie: str | None,
        password_hash: str | None = None,
    ) -> str:
        now, cookie = self.clock.now_ms(), self.ids.secret()
        user = await accounts_repo.lock_user(connection, user_id)
        # Revoked, or given another password, while we were checking the old one.
        if (
            user is None
            or user.revoked_at
            or (password_hash or user.password_hash) != user.password_hash
        ):
            raise WrongPassword
        if old_cookie:
            await reach("sign_in.end_old_session")
            await repo.end_session(connection, self.credentials.session_digest(old_cookie))
        await reach("sign_in.sweep")
        await repo.sweep(connection, now, now - attempts.WINDOW_MS)
        key = self.credentials.session_digest(cookie)
        await reach("sign_in.add_session")
        await repo.add_session(connection, key, user_id, now, now + SESSION_MS)
        return cookie


async def make_link(db: Executor, clock: Clock, ids: Ids, user_id: str) -> str:
    """The path of a link that signs this user in, once, within a day."""
    code, now = ids.secret(), clock.now_ms()
    await reach("sign_in.add_link")
    await repo.add_link(db, digest(code), user_id, now, now + LINK_MS)
    return f"/login?code={code}"
