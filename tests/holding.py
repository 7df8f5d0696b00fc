"""Whether statements wait for each other."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from safelight.infra.db import Database

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
