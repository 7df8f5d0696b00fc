"""Watches every transaction of this process: after each answer that leaves one open, the server is
asked whether it holds a lock for which a whole organization waits. Whoever stood still at that moment
would keep everybody waiting."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import asyncpg
import pytest

# By the numbers in sql/locks.sql.
_EVERYBODYS = {1: "the feed's", 2: "the names'"}
_METHODS = ("execute", "fetch", "fetchrow", "fetchval")


class Watched:
    def __init__(self, url: str) -> None:
        self._url = url
        self._asking = asyncio.Lock()
        self.looks: Counter[str] = Counter()  # by the first words of what had been asked
        self.held: list[str] = []

    async def look(self, connection: Any, statement: str) -> None:
        if connection.is_closed() or not connection.is_in_transaction():
            return
        self.looks[" ".join(statement.split()[:2])] += 1
        async with self._asking:
            rows = await self._observer.fetch(
                "SELECT classid::int AS number FROM pg_locks WHERE locktype = 'advisory' "
                "AND granted AND pid = $1 AND classid::int = ANY ($2)",
                connection.get_server_pid(),
                list(_EVERYBODYS),
            )
        self.held += [f"{_EVERYBODYS[row['number']]} lock after {statement}" for row in rows]

    async def begin(self) -> None:
        self._observer = await asyncpg.connect(self._url)

    def wrapped(self, method: Any) -> Any:
        @wraps(method)
        async def call(connection: Any, statement: str, *args: Any, **kwargs: Any) -> Any:
            answer = await method(connection, statement, *args, **kwargs)
            if connection is not self._observer:
                await self.look(connection, statement)
            return answer

        return call


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[Watched]:
    """Fails at its end if a lock was held. What it has looked at is for the test to judge."""
    watch = Watched(url)
    await watch.begin()
    with pytest.MonkeyPatch.context() as patch:
        for name in _METHODS:
            patch.setattr(
                asyncpg.Connection, name, watch.wrapped(getattr(asyncpg.Connection, name))
            )
        try:
            yield watch
        finally:
            watch._observer.terminate()
    assert not watch.held, watch.held[:5]
