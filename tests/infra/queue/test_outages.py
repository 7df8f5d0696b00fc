"""The database goes away in every way it can; the worker waits and goes on by itself."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from conftest import reachable_directory
from infra.queue.crew import (
    NEVER,
    Number,
    Starts,
    a_kind,
    a_queue,
    add_many,
    crew,
    nothing_left,
    rows,
)
from safelight.infra.db import Database
from safelight.infra.migrate import migrate
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.infra.queue.jobs import Backoff, Done, Job, Verdict
from safelight.testing.waiting import until

THE_WORKERS = r"query ~ '^SELECT \* FROM job_(take|attend)'"  # its last statements
TOUGH = a_kind(limit=16, retry=Backoff(attempts=20, first=0.05, cap=0.2))


async def kill_backends(db: Database, condition: str = "true") -> int:
    killed: int = await db.fetchval(
        f"""
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}
        """
    )
    return killed


async def test_a_killed_listener_is_rebuilt_and_hears_the_next_job(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER):
        elsewhere = a_queue(database)
        await until(lambda: kill_backends(database, "query LIKE 'LISTEN%' OR query = 'SELECT 1'"))
        await elsewhere.enqueue(database, elsewhere.kinds["test.work"], Number(1), organization="a")
        announced = time.monotonic()
        await until(lambda: starts.seen)
        assert starts.seen[0][1] - announced < 2 + 1
        await elsewhere.enqueue(database, elsewhere.kinds["test.work"], Number(2), organization="a")
        await until(lambda: len(starts.seen) == 2)
        await elsewhere.bus.stop()


async def write_something(db: Database, job: Job[Number]) -> Verdict:
    """A guarded effect and the job's end, together."""
    await db.fetchval("SELECT pg_sleep(0.002)")
    return job.ended(
        await db.fetchval(
            """
            INSERT INTO effects (job) SELECT $1 FROM job_finish($1, $2) AS mine WHERE mine
            RETURNING true
            """,
            job.id,
            job.claim,
        )
    )


async def effects(db: Database) -> tuple[int, int]:
    row = await db.fetchrow("SELECT count(*), count(DISTINCT job) FROM effects")
    assert row is not None
    return row[0], row[1]


async def has_written(db: Database, many: int) -> bool:
    return (await effects(db))[0] >= many


async def test_twelve_hundred_jobs_while_all_backends_are_killed(database: Database) -> None:
    executioner = await Database.open(database.url, pool_size=2)
    await database.execute("CREATE TABLE effects (job bigint)")

    async def handle(job: Job[Number]) -> Verdict:
        return await write_something(database, job)

    await add_many(database, 1200)
    async with crew(database, handle, kind=TOUGH, lease=2.0):
        for count in range(6):
            await until(partial(has_written, executioner, 100 * count + 1))
            async with executioner.connection() as connection:
                await connection.execute(
                    """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()
                    """
                )
        await until(lambda: nothing_left(executioner), 30)
        assert await effects(executioner) == (1200, 1200)
    executioner.terminate()


async def test_the_final_write_survives_its_connection(database: Database) -> None:
    killed = 0

    async def kill_then_succeed(_: Job[Number]) -> Verdict:
        nonlocal killed
        killed += await kill_backends(database, THE_WORKERS)
        return Done()

    starts = Starts(kill_then_succeed)
    async with crew(database, starts) as team:
        await team.add(1)
        await until(lambda: nothing_left(database))
    assert killed > 0
    assert starts.numbers == [1]


async def test_a_retry_survives_the_loss_of_its_connection(database: Database) -> None:
    async def kill_then_fail_once(job: Job[Number]) -> Verdict:
        if job.attempt == 1:
            await kill_backends(database, THE_WORKERS)
            raise RuntimeError("once")
        return Done()

    starts = Starts(kill_then_fail_once)
    async with crew(database, starts) as team:
        await team.add(1)
        await until(lambda: nothing_left(database))
    assert [job.attempt for _, _, job in starts.seen] == [1, 2]


@pytest.fixture(scope="module")
def fragile() -> Iterator[EmbeddedPostgres]:
    """A server of our own, to be restarted."""
    with reachable_directory() as directory:
        server = EmbeddedPostgres(directory / "data")
        server.start()
        yield server
        server.stop()


@pytest.mark.process
async def test_twelve_hundred_jobs_while_the_database_restarts_three_times(
    fragile: EmbeddedPostgres,
) -> None:
    await migrate(fragile.url)
    db = await Database.open(fragile.url, pool_size=5)
    await db.execute("CREATE TABLE effects (job bigint)")

    async def handle(job: Job[Number]) -> Verdict:
        return await write_something(db, job)

    await add_many(db, 1200)
    async with crew(db, handle, kind=TOUGH, lease=3.0):
        for count in range(3):
            await until(partial(has_written, db, 100 * count + 1))
            fragile.stop()
            fragile.start()
            await until(lambda: answers(db))
        await until(lambda: nothing_left(db), 30)
        assert await effects(db) == (1200, 1200)
        assert await rows(db) == []
    db.terminate()


async def answers(db: Database) -> bool:
    try:
        return bool(await db.fetchval("SELECT true"))
    except Exception:  # noqa: BLE001 - any of the ways in which it can be away
        return False
