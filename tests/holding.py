"""Whether statements wait for each other."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from safelight.infra.db import Database
from safelight.testing.waiting import until

Statement = Callable[[Any], Awaitable[object]]


async def waits(db: Database, first: Statement, second: Statement) -> bool:
    """Whether the second, in a transaction of its own, waits for that of the first."""
    async with db.transaction() as holding:
        await first(holding)
        try:
            async with db.transaction() as waiting:
                await waiting.execute("SET LOCAL lock_timeout = '50ms'")
                await second(waiting)
        except asyncpg.LockNotAvailableError:
            return True
    return False


async def until_waiting(db: Database, count: int) -> None:
    """For a lock, that many."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    async def enough() -> bool:
        return int(await db.fetchval(waiting)) >= count

    await until(enough)
