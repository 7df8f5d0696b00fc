"""Whether workers are there: each holds a lock for as long as a session of its own lasts.

A process that is killed takes its session with it, and the others need not wait for its leases to
end. One that lives and has lost that session builds it anew at once, and until then strikes itself
off the list, so that only its leases count. What is taken from a living worker all the same is
fenced: it costs a second run.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import structlog

from safelight import __version__
from safelight.infra.connecting import connect
from safelight.infra.db import Database
from safelight.infra.queue import repo

_PATIENCE_SECONDS = 5.0
_ANSWER_SECONDS = 2.0
_PAUSE_SECONDS = 0.25

log = structlog.get_logger()


class Presence:
    """Of one worker."""

    def __init__(self, db: Database, owner: str, node: str, every: float) -> None:
        self._db = db
        self._owner = owner
        self._node = node
        self._every = every
        self._there = asyncio.Event()

    async def start(self) -> None:
        """Returns once others can see it, or after a while in any case."""
        self._holding = asyncio.create_task(self._hold_for_ever())
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._there.wait()

    async def stop(self) -> None:
        self._holding.cancel()
        await asyncio.wait([self._holding])
        await repo.resign(self._db, self._owner)

    def abandon(self) -> None:
        self._holding.cancel()

    async def _hold_for_ever(self) -> None:
        while True:
            try:
                await self._hold()
            except Exception as error:  # noqa: BLE001 - whatever it was, it goes on
                self._say_once("presence.unseen", error)
                await self._strike_off()
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _hold(self) -> None:
        """Until the session is lost. It is asked now and then: a vanished server says nothing."""
        connection = await connect(self._db.address.direct, command=_ANSWER_SECONDS)
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await repo.enrol(connection, self._owner, self._node, __version__)
            self._there.set()
            while not lost.is_set():
                try:
                    async with asyncio.timeout(self._every):
                        await lost.wait()
                except TimeoutError:
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def _say_once(self, event: str, error: Exception) -> None:
        """Not for every try of a long outage."""
        if self._there.is_set():
            log.warning(event, error=repr(error))
        self._there.clear()

    async def _strike_off(self) -> None:
        with suppress(Exception):
            await repo.resign(self._db, self._owner)


class Missing:
    """Who was missed since when, by our own clock: whoever has only lost a connection is back
    before the grace ends."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[str, float] = {}

    def gone(self, absent: Iterable[str], now: float) -> list[str]:
        """Those that have been absent for the grace."""
        self._since = {owner: self._since.get(owner, now) for owner in absent}
        return [owner for owner, since in self._since.items() if now - since >= self._grace]

    def wait(self, now: float) -> float | None:
        """Until the next of them is gone."""
        ends = [since + self._grace - now for since in self._since.values()]
        return min((end for end in ends if end > 0), default=None)

    def forget(self) -> None:
        """Everybody may have been cut off, as we were."""
        self._since.clear()
