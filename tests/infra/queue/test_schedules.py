"""Recurring jobs: once per tick, one catch-up, and nothing to clean up after a change."""

from typing import Any

from infra.queue.crew import (
    crew,
    rows,
)
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import DAY, HOUR, Done, Job, JobKind, Nothing, Schedule, Verdict
from safelight.testing.waiting import until

SWEEP = JobKind("test.sweep", payload=Nothing)


async def make_due(db: Database, ago: str = "1 second") -> None:
    await db.execute("UPDATE job_schedules SET next_at = now() - $1::text::interval", ago)


async def tend(db: Database, *schedules: Schedule, node: str = "here") -> None:
    names = [schedule.name(node) for schedule in schedules]
    await queue_repo.tend(db, ["test.sweep"], node, names)


async def declared(db: Database) -> list[dict[str, Any]]:
    found = await db.fetch(
        """
        SELECT name, every_seconds, next_at > now() AS future,
               extract(epoch FROM next_at)::bigint % every_seconds AS misaligned
        FROM job_schedules ORDER BY name
        """
    )
    return [dict(row) for row in found]


async def test_a_new_schedule_first_fires_at_its_next_aligned_tick(database: Database) -> None:
    hourly = Schedule(SWEEP, HOUR)
    await queue_repo.declare(database, [hourly], "here")
    await tend(database, hourly)
    assert await rows(database) == []
    assert await declared(database) == [
        {"name": "test.sweep", "every_seconds": HOUR, "future": True, "misaligned": 0}
    ]


async def test_ticks_missed_in_a_week_of_downtime_are_one_job(database: Database) -> None:
    hourly = Schedule(SWEEP, HOUR)
    await queue_repo.declare(database, [hourly], "here")
    await make_due(database, "7 days")
    await tend(database, hourly)
    await tend(database, hourly)
    [job] = await rows(database)
    assert (job["kind"], job["key"], job["organization"]) == ("test.sweep", "test.sweep", "")
    assert (await declared(database))[0]["future"]


async def test_a_tick_while_the_last_one_still_waits_is_skipped(database: Database) -> None:
    hourly = Schedule(SWEEP, HOUR)
    await queue_repo.declare(database, [hourly], "here")
    for _ in range(3):
        await make_due(database)
        await tend(database, hourly)
    assert len(await rows(database)) == 1


async def test_declaring_again_changes_nothing_and_a_new_interval_takes_over(
    database: Database,
) -> None:
    await queue_repo.declare(database, [Schedule(SWEEP, HOUR)], "here")
    await make_due(database)
    await queue_repo.declare(database, [Schedule(SWEEP, HOUR)], "here")
    assert not (await declared(database))[0]["future"], "a restart would have skipped the tick"
    await queue_repo.declare(database, [Schedule(SWEEP, DAY)], "here")
    assert await declared(database) == [
        {"name": "test.sweep", "every_seconds": DAY, "future": True, "misaligned": 0}
    ]


async def test_a_schedule_nobody_declares_any_more_stays_silent(database: Database) -> None:
    await queue_repo.declare(database, [Schedule(SWEEP, HOUR)], "here")
    await make_due(database)
    await tend(database)
    assert await rows(database) == []


async def test_per_node_means_once_on_each_node(database: Database) -> None:
    each = Schedule(SWEEP, HOUR, per_node=True)
    for node in ("here", "there"):
        await queue_repo.declare(database, [each], node)
    await make_due(database)
    for node in ("here", "there", "here"):
        await tend(database, each, node=node)
    assert sorted(job["node"] for job in await rows(database)) == ["here", "there"]


async def test_a_worker_fires_and_runs_it(database: Database) -> None:
    ticks = []

    async def sweep(job: Job[Nothing]) -> Verdict:
        ticks.append(job.payload)
        return Done()

    async with crew(database, others=[Handler(SWEEP, sweep)], schedules=[Schedule(SWEEP, 1)]):
        await until(lambda: len(ticks) == 2)
    assert ticks == [Nothing(), Nothing()]
