"""The database's disk is full for a while: nothing fails, everything waits, and then it is done."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from faults.disk import SmallDisk, small_disk
from infra.queue.crew import Number, a_kind, add_many, crew, nothing_left
from safelight.infra import failpoints
from safelight.infra.away import is_away
from safelight.infra.db import AWAY, Database
from safelight.infra.migrate import migrate
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.infra.queue.jobs import Backoff, Job, Verdict
from safelight.testing.waiting import until

pytestmark = pytest.mark.process

JOBS, BULK = 40, 300_000
STRICT = a_kind(retry=Backoff(attempts=1, first=0.05, away=0.5))  # whatever is charged is buried
LITTLE = {"max_wal_size": "32MB", "min_wal_size": "32MB", "max_connections": "20"}


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(150) as disk:
        yield disk


@pytest.fixture
async def server(disk: SmallDisk) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(disk.path / "data", extra_settings=LITTLE)
    server.start()
    watching = asyncio.create_task(server.watch())
    yield server
    server.stop()
    await watching


@pytest.fixture
async def database(server: EmbeddedPostgres) -> AsyncIterator[Database]:
    await migrate(server.url)
    db = await Database.open(server.url, pool_size=5)
    yield db
    db.terminate()


@pytest.mark.parametrize("log_too", [False, True])
async def test_a_full_disk_costs_nothing_but_time(
    server: EmbeddedPostgres, database: Database, disk: SmallDisk, log_too: bool
) -> None:
    """Without room for its log, PostgreSQL ends itself, and is started until there is some."""
    ends = failpoints.observe("queue.put_back")
    await database.execute("CREATE TABLE effects (job bigint, bulk bytea)")
    troubles: list[Exception] = []
    written = asyncio.Semaphore(0)

    async def write_much(job: Job[Number]) -> Verdict:
        try:
            mine = await database.fetchval(
                "INSERT INTO effects SELECT $1, $3 FROM job_finish($1, $2) AS mine WHERE mine "
                "RETURNING true",
                job.id,
                job.claim,
                os.urandom(BULK),
            )
        except Exception as error:
            troubles.append(error)
            raise
        written.release()
        return job.ended(mine)

    await add_many(database, JOBS)
    async with crew(database, write_much, kind=STRICT, lease=1.0) as team:
        for _ in range(JOBS // 4):
            await written.acquire()
        disk.fill()
        if log_too:
            await exhaust_the_log(database)
            await until(lambda: server.pid is None)
        else:
            await ends.passed(ends.passes + 4)
        disk.free()
        await until(lambda: finished(database), 60)
        dead = await team.queue.dead_letters.page()
    assert [letter.error for letter in dead] == []
    assert all(map(is_away, troubles)), troubles
    counts = await database.fetchrow("SELECT count(*), count(DISTINCT job) FROM effects")
    assert counts is not None
    assert tuple(counts) == (JOBS, JOBS)


async def exhaust_the_log(db: Database) -> None:
    """The files it has in store are used up; it cannot make another."""
    with suppress(*AWAY):
        while True:
            await db.execute("SELECT pg_logical_emit_message(false, '', 'x', true)")
            await db.execute("SELECT pg_switch_wal()")


async def finished(db: Database) -> bool:
    with suppress(*AWAY):
        return await nothing_left(db)
    return False
