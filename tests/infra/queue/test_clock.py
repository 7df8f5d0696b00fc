"""The database's clock was ahead and has been set right: rows as it left them."""

from datetime import timedelta
from typing import Any

from infra.queue.crew import Number, Starts, a_kind, add_many, crew, nothing_left, rows
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.jobs import HOUR, JobKind, Nothing, Schedule
from safelight.testing.waiting import until

LEASE = timedelta(seconds=10)
SWEEP = JobKind("test.sweep", payload=Nothing)


async def set_back(db: Database, by: str = "1 day") -> None:
    """What was written by the clock lies in the future now."""
    await db.execute(
        "UPDATE jobs SET run_at = run_at + $1::text::interval, "
        "delayed_at = delayed_at + $1::text::interval, "
        "lease_until = lease_until + $1::text::interval",
        by,
    )


async def tend(db: Database, *schedules: str) -> None:
    await queue_repo.tend(db, ["test.work"], "here", schedules)


async def left(db: Database, column: str) -> float:
    """Seconds until then."""
    seconds: float = await db.fetchval(
        f"SELECT extract(epoch FROM {column} - now())::float8 FROM jobs"
    )
    return seconds


async def test_a_lease_lasts_for_its_length_from_now_on(database: Database) -> None:
    """Whoever lives renews it, and is not disturbed."""
    await add_many(database, 1)
    await queue_repo.claim(database, [("test.work", 1, "")], "here", "older", LEASE)
    await set_back(database)
    await tend(database)
    assert 9 < await left(database, "lease_until") <= 10
    [row] = await rows(database)
    assert (row["status"], row["owner"]) == ("running", "older")


async def test_a_lease_that_is_as_long_as_it_should_be_is_left_alone(database: Database) -> None:
    await add_many(database, 1)
    lease = timedelta(hours=1)
    await queue_repo.claim(database, [("test.work", 1, "")], "here", "older", lease)
    before = await rows(database)
    await tend(database)
    assert await rows(database) == before


async def test_a_retry_waits_as_long_as_it_was_to_wait(database: Database) -> None:
    async with crew(database, Starts()) as team:
        kind = a_kind()
        await team.queue.enqueue(database, kind, Number(1), organization="a", run_in=30)
        await set_back(database)
        await tend(database)
        assert 29 < await left(database, "run_at") <= 30
        await database.execute("UPDATE jobs SET run_at = now()")
        team.queue.wake()
        await until(lambda: nothing_left(database))


async def test_an_alarm_far_away_stays_where_it_is(database: Database) -> None:
    async with crew(database) as team:
        await team.add(1, run_in=30 * 86400)
        before = await rows(database)
        await tend(database)
        assert await rows(database) == before
        await database.execute("DELETE FROM jobs")


async def test_a_schedule_beyond_its_period_is_due(database: Database) -> None:
    hourly = Schedule(SWEEP, HOUR)
    await queue_repo.declare(database, [hourly], "here")
    await tend(database, "test.sweep")
    assert await rows(database) == [], "its next tick is within the hour"
    await database.execute("UPDATE job_schedules SET next_at = next_at + interval '1 day'")
    await tend(database, "test.sweep")
    [job] = await rows(database)
    assert job["kind"] == "test.sweep"
    assert await database.fetchval(within_the_hour())
    await tend(database, "test.sweep")
    assert len(await rows(database)) == 1


def within_the_hour() -> Any:
    return "SELECT next_at BETWEEN now() AND now() + interval '1 hour' FROM job_schedules"
