"""Workers in processes of their own, killed without a word."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from infra.queue.crew import Labourer, add_many, note_effects, rows, until
from safelight.infra.db import Database

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


async def test_two_hundred_jobs_of_a_killed_worker_are_taken_over(
    database: Database, hire: Hire
) -> None:
    async def all_have(table: str) -> bool:
        return await how_many(database, table) >= 200

    await add_many(database, 200)
    holder = hire("hold", lease=1.5)
    await until(lambda: all_have("starts"))
    hire("work", lease=1.5)
    await until(lambda: how_many(database, "ticks WHERE owner = 'labourer-1'"))
    holder.kill()
    killed = time.monotonic()
    await until(lambda: all_have("effects"))
    assert time.monotonic() - killed < 1.5 + 2 + 2
    assert await how_many(database, "(SELECT DISTINCT job FROM effects) AS once") == 200
    assert await how_many(database, "jobs WHERE kind = 'test.work'") == 0


async def test_a_takeover_counts_as_an_attempt(database: Database, hire: Hire) -> None:
    await add_many(database, 1)
    hire("hold")
    await until(lambda: how_many(database, "starts"))
    hire("hold")
    await until(lambda: how_many(database, "ticks WHERE owner = 'labourer-1'"))
    before = await database.fetchrow("SELECT attempts, claim, owner FROM jobs WHERE key IS NULL")
    assert before is not None
    assert tuple(before) == (1, 1, "labourer-0"), "a living worker's job was taken"


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
    for labourer in ("labourer-0", "labourer-1"):
        await until(lambda who=labourer: how_many(database, f"ticks WHERE owner = '{who}'"))  # type: ignore[misc]
    for _ in range(20):
        await add_many(database, 60)
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

    async def four_ticks() -> bool:
        return await how_many(database, "ticks") >= 4

    await until(four_ticks)
    seconds = await database.fetch("SELECT floor(extract(epoch FROM fired)) AS second FROM ticks")
    fired = [int(row["second"]) for row in seconds]
    assert len(set(fired)) == len(fired)
