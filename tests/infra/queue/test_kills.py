"""The queue's statements fail one after the other, each in the middle of a working day."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import pytest

from infra.queue.crew import Crew, Number, a_kind, crew, nothing_left, rows
from points import points_of
from safelight.infra import failpoints
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.failpoints import Armed, FailpointError
from safelight.infra.injected import SystemClock
from safelight.infra.queue.handlers import upkeep
from safelight.infra.queue.jobs import (
    Backoff,
    Dead,
    Done,
    Failure,
    Job,
    JobKind,
    Nothing,
    Retry,
    Schedule,
    Verdict,
)
from safelight.testing.waiting import until

T = TypeVar("T")
KIND = a_kind(retry=Backoff(attempts=9, first=0.02, cap=0.05))
HOURLY = JobKind("test.hourly", payload=Nothing)
DONE, RETRIED, DEAD, DISCARDED, PUT_OFF, MOVED, CANCELLED, SLOW, SUSPECTED, ORPHANED = range(1, 11)


class Day:
    """What each job does when it is run, by its number."""

    def __init__(self, db: Database, renewal: Armed) -> None:
        self.units: Units | None = None
        self.db = db
        self.renewal = renewal
        self.done: set[int] = set()
        self.seen: set[int] = set()

    async def handle(self, job: Job[Number]) -> Verdict:
        number = job.payload.n
        first = number not in self.seen
        self.seen.add(number)
        if number == RETRIED and first:
            return Retry(Failure("LATER", "once"))
        if number in {DEAD, DISCARDED} and number not in self.done:
            return Dead(Failure("NO", "never"))
        if number == PUT_OFF and first:
            return await self._put_off(job)
        if number == SLOW:
            await self.renewal.passed()
        self.done.add(number)
        return Done()

    async def _put_off(self, job: Job[Number]) -> Verdict:
        assert self.units
        try:
            async with self.units.open(job.organization) as unit:
                await unit.put_off(job, 0.01)
        except FailpointError as error:
            self.seen.discard(PUT_OFF)
            return Retry(error)
        return Done(already=True)


async def insisting(action: Callable[[], Awaitable[T]]) -> T:
    """Whoever asked is told of the failure, and asks again."""
    try:
        return await action()
    except FailpointError:
        return await action()


@asynccontextmanager
async def at_work(day: Day) -> AsyncIterator[Crew]:
    async with AsyncExitStack() as stack:

        async def nothing() -> None: ...

        others, schedules = [upkeep(HOURLY, nothing)], [Schedule(HOURLY, every=3600)]

        async def hire() -> Crew:
            options: dict[str, Any] = {"others": others, "schedules": schedules, "lease": 0.6}
            options |= {"grace": 0, "quiet": 0}
            return await stack.enter_async_context(crew(day.db, day.handle, kind=KIND, **options))

        team = await insisting(hire)
        day.units = Units(day.db, team.bus, SystemClock())
        yield team


async def letters(team: Crew, count: int) -> list[int]:
    async def dead() -> list[int] | None:
        found = await team.queue.dead_letters.page()
        return [letter.id for letter in found] if len(found) == count else None

    found: list[int] = await until(dead)
    return found


async def leave_behind(db: Database) -> None:
    """What workers that died a while ago have left."""
    await db.execute(
        "UPDATE jobs SET deaths = 2, run_at = now() WHERE key = $1::text", str(SUSPECTED)
    )
    await db.execute("INSERT INTO job_workers (owner) VALUES ('ghost')")
    await db.execute(
        "UPDATE jobs SET status = 'running', owner = 'ghost', attempts = 1, claim = 1, "
        "lease = '1 hour', lease_until = now() + interval '1 hour' WHERE key = $1::text",
        str(ORPHANED),
    )


# Adopting is what a start does: ingest/test_node.py. Guests come when it is full: test_fairness.py.
@pytest.mark.parametrize("point", points_of("queue.", without=["queue.adopt", "queue.claim_guest"]))
async def test_a_failure_at_any_statement_loses_no_job(database: Database, point: str) -> None:
    armed = failpoints.arm(point, "raise@1")
    renewal = armed if point == "queue.renew" else failpoints.observe("queue.renew")
    day = Day(database, renewal)
    async with at_work(day) as team:

        async def add(number: int, **options: Any) -> None:
            await insisting(lambda: team.add(number, KIND, key=str(number), **options))

        for number in (DONE, RETRIED, DEAD, DISCARDED, PUT_OFF, SLOW):
            await add(number)
        for number in (MOVED, CANCELLED, SUSPECTED, ORPHANED):
            await add(number, run_in=3600)
        await leave_behind(database)
        queue, letter = team.queue, team.queue.dead_letters
        await insisting(lambda: queue.reschedule(database, KIND, str(MOVED), run_in=0))
        await insisting(lambda: queue.cancel(database, KIND, str(CANCELLED)))
        for job_id in await letters(team, 2):
            number = await database.fetchval(
                "SELECT payload -> 'n' FROM jobs WHERE id = $1", job_id
            )
            if number == DEAD:
                day.done.add(DEAD)
                await insisting(lambda job_id=job_id: letter.redrive(job_id))  # type: ignore[misc]
            else:
                await insisting(lambda job_id=job_id: letter.discard(job_id))  # type: ignore[misc]
        await until(lambda: nothing_left(database))
    assert armed.passes > 0, "the day never came by"
    assert day.done == {DONE, RETRIED, DEAD, PUT_OFF, MOVED, SLOW, SUSPECTED, ORPHANED}
    assert CANCELLED not in day.seen
    assert await rows(database) == []
