"""Two processes on one database, each with a cache and a bus of its own, and what they ask for."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accounts.world import World
from safelight.accounts import repo
from safelight.accounts.access import Caller
from safelight.infra.db import Database
from safelight.testing.waiting import until

READS = ("token_with", "session_user")


@asynccontextmanager
async def process(url: str, name: str) -> AsyncIterator[World]:
    """One that listens."""
    db = await Database.open(url, pool_size=5)
    world = World(db, origin=name)
    await world.bus.start()
    try:
        yield world
    finally:
        await world.bus.stop()
        db.terminate()


class Asks:
    """Which of the credential's reads were made, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        for name in READS:
            monkeypatch.setattr(repo, name, self._noting(name, getattr(repo, name)))

    def _noting(self, name: str, statement: Callable[..., Any]) -> Callable[..., Any]:
        async def noting(*given: Any, **more: Any) -> Any:
            self.made.append(name)
            return await statement(*given, **more)

        return noting

    async def of(self, world: World, secret: str) -> tuple[Caller | None, int]:
        """Who it is, and how often the database was asked."""
        before = len(self.made)
        return await caller(world, secret), len(self.made) - before

    async def until_known(self, world: World, secret: str) -> Caller:
        """Until it costs nothing: on a busy machine the bus may be behind for a moment."""

        async def known() -> Caller | None:
            found, asked = await self.of(world, secret)
            assert found is not None
            return found if asked == 0 else None

        found: Caller = await until(known)
        return found


async def caller(world: World, secret: str) -> Caller | None:
    """Of a token or a cookie."""
    if secret.startswith("slt_"):
        return await world.credentials.of_token(secret)
    return await world.credentials.of_session(secret)
