"""Where a user is signed in, for themselves to see and to end."""

from dataclasses import dataclass

from safelight.accounts.access import OpenSession
from safelight.accounts.guard import LONGEST_SESSION_MS, Credentials
from safelight.accounts.sign_in import repo
from safelight.infra.activity import Units


@dataclass(frozen=True)
class Sessions:
    units: Units
    credentials: Credentials

    async def of(self, user_id: str) -> list[OpenSession]:
        now = self.units.clock.now_ms()
        return await repo.sessions_of(self.units.db, user_id, now, now - LONGEST_SESSION_MS)

    async def end(self, user_id: str, handle: str) -> None:
        """One that has ended is left alone, and so is somebody else's."""
        found = [one for one in await self.of(user_id) if one.handle == handle]
        async with self.units.open("") as unit:
            for one in found:
                await repo.end_session(unit.connection, one.digest)

    async def end_others(self, user_id: str, cookie: str) -> None:
        """All but the browser's that asks for it."""
        async with self.units.open("") as unit:
            mine = self.credentials.session_digest(cookie)
            await repo.end_sessions_of(unit.connection, user_id, but=mine)

    async def end_all(self, user_id: str) -> None:
        async with self.units.open("") as unit:
            await repo.end_sessions_of(unit.connection, user_id)
