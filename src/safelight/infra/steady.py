"""The time by which something may be forgotten for good.

A clock can be wrong for an hour, and what is forgotten meanwhile does not come back when it is set
right. So nothing is forgotten by the clock itself, but by a time that follows it:

- never ahead of it, and at once back with it;
- from one look to the next it advances as the clock does; after a leap, or while the database's
  clock says something else, it stands still;
- what it is behind it makes up at a few times the clock's pace, so that a machine that is off at
  night is soon where it should be; and after a day without a leap the clock is simply believed.

Everybody who forgets looks here, and each look is an observation. Processes share what was seen.
"""

import asyncio
from contextlib import suppress
from dataclasses import asdict, dataclass

import structlog

from safelight.infra import kv
from safelight.infra.db import AWAY, Database, read
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics

_HOUR_MS = 3_600_000
LEAP_MS = 2 * _HOUR_MS  # looks are an hour apart
BELIEVED_MS = 24 * _HOUR_MS
PACE = 4
SKEW_MS = 1000
_KEY = "steady"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last look saw. `time` is the steady time, `since` when the clock last leapt."""

    time: int
    clock: int
    since: int


def observe(last: Seen | None, clock: int, database: int) -> Seen:
    """The next look; `database` is what the database's clock says."""
    if last is None:
        return Seen(clock, clock, clock)
    passed = clock - last.clock
    if not 0 <= passed <= LEAP_MS or abs(clock - database) > LEAP_MS:
        return Seen(min(last.time, clock), clock, clock)
    if clock - last.since >= BELIEVED_MS:
        return Seen(clock, clock, last.since)
    return Seen(min(clock, last.time + PACE * passed), clock, last.since)


class SteadyTime:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def now_ms(self) -> int:
        """Two that look at the same moment write nearly the same."""
        clock = self._clock.now_ms()
        kept = await kv.get(self._db, _KEY, now=clock)
        seen = observe(Seen(**kept) if kept else None, clock, await database_ms(self._db))
        await kv.put(self._db, _KEY, asdict(seen), now=clock)
        if seen.time < clock - LEAP_MS:
            behind = (clock - seen.time) // 1000
            structlog.get_logger().warning("the clock is not believed yet", seconds=behind)
        return seen.time


class ClockWatch:
    """Compares at the start, and every hour, in every process: each has a clock of its own."""

    def __init__(self, db: Database, clock: Clock, metrics: Metrics) -> None:
        self._asked = (db, clock, metrics)

    async def start(self, every: float = _HOUR_MS / 1000) -> None:
        await measure_skew(*self._asked)
        self._watching = asyncio.create_task(self._watch(every))

    async def stop(self) -> None:
        self._watching.cancel()
        await asyncio.wait([self._watching])

    async def _watch(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            with suppress(*AWAY):
                await measure_skew(*self._asked)


async def measure_skew(db: Database, clock: Clock, metrics: Metrics) -> float:
    """By how many seconds our clock is ahead of the database's, halfway through asking."""
    before = clock.now_ms()
    database = await database_ms(db)
    seconds = ((before + clock.now_ms()) / 2 - database) / 1000
    metrics.clock_skew.set(seconds)
    if abs(seconds) * 1000 > SKEW_MS:
        structlog.get_logger().warning(
            "our clock and the database's differ; set both by the same source",
            ahead_seconds=round(seconds, 3),
        )
    return seconds


@read
async def database_ms(db: Database) -> int:
    now: int = await db.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    return now
