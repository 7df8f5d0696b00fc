"""Workers in processes of their own, killed without a word."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from infra.queue.crew import (
    Labourer,
    add_many,
    note_effects,
    rows,
)
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.testing.waiting import until

pytestmark = pytest.mark.process

Hire = Callable[..., Labourer]


@pytest.fixture
async def hire(database: Database) -> AsyncIterator[Hire]:
    await note_effects(database)
    hired: list[Labourer] = []

    def begin(behaviour: str, lease: float = 1.0) -> Labourer:
        hired.append(Labourer.hire(database.url, behaviour, lease, f"labourer-{len(hired)}"))
        return hired[-1]

    yield begin
    for labourer in hired:
        if labourer.process.poll() is None:
            labourer.kill()


async def how_many(database: Database, what: str) -> int:
    found: int = await database.fetchval(f"SELECT count(*) FROM {what}")
    return found


async def reaches(database: Database, what: str, number: int) -> bool:
    return await how_many(database, what) >= number


async def test_two_hundred_jobs_of_a_killed_worker_are_taken_over(
    database: Database, hire: Hire
) -> None:
    await add_many(database, 200)
    holder = hire("hold", lease=1.5)
    await until(lambda: reaches(database, "starts", 200))
    hire("work", lease=1.5)
    await until(lambda: reaches(database, "ready", 2))
    assert await how_many(database, "effects") == 0, "a living worker's job was taken"
    holder.kill()
    killed = time.monotonic()
    await until(lambda: reaches(database, "effects", 200))
    assert time.monotonic() - killed < 1.5 + 2 + 2
    assert await how_many(database, "(SELECT DISTINCT job FROM effects WHERE attempt = 2) e") == 200
    assert await how_many(database, "jobs WHERE kind = 'test.work'") == 0


async def test_a_job_that_kills_its_process_ends_dead(database: Database, hire: Hire) -> None:
    await add_many(database, 1)
    for _ in range(3):
        victim = hire("die", lease=0.4)
        await asyncio.to_thread(victim.dismiss)
        assert victim.process.returncode == -9
    survivor = hire("die", lease=0.4)
    await until(lambda: how_many(database, "jobs WHERE status = 'dead'"))
    assert survivor.process.poll() is None
    starts = await database.fetch("SELECT attempt FROM starts ORDER BY attempt")
    assert [row["attempt"] for row in starts] == [1, 2, 3]
    [row] = [row for row in await rows(database) if row["status"] == "dead"]
    assert (row["attempts"], row["error"]["code"]) == (3, "WORKER_DIED")


async def test_two_processes_share_one_backlog(database: Database, hire: Hire) -> None:
    hire("work")
    hire("work")
    await until(lambda: reaches(database, "ready", 2))
    foreman = Bus(database, "foreman")
    for _ in range(20):
        await add_many(database, 60)
        foreman.announce("jobs", "test.work")
    await until(lambda: drained(database))
    assert await how_many(database, "effects") == 1200
    assert await how_many(database, "(SELECT DISTINCT job FROM effects) AS once") == 1200
    assert await how_many(database, "(SELECT DISTINCT owner FROM effects) AS workers") == 2


async def drained(database: Database) -> bool:
    return await how_many(database, "jobs WHERE kind = 'test.work'") == 0


async def test_a_schedule_on_three_processes_fires_once_per_tick(
    database: Database, hire: Hire
) -> None:
    for _ in range(3):
        hire("work")

    await until(lambda: reaches(database, "ticks", 4))
    seconds = await database.fetch("SELECT floor(extract(epoch FROM fired)) AS second FROM ticks")
    fired = [int(row["second"]) for row in seconds]
    assert len(set(fired)) == len(fired)
