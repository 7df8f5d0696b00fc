"""Where a commit waits until a standby has it, nothing is answered before: not when its wait was cut
short either, after which the row is there to be seen and only the leader has it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from conftest import reachable_directory
from ingest.test_accept import UPLOAD, build, good, left
from safelight.infra.connecting import Limits
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds
from safelight.infra.migrate import migrate
from safelight.infra.postgres.server import EmbeddedPostgres
from safelight.ingest.contract import OutcomeUnknown
from safelight.ingest.directory import IngestDirectory
from safelight.testing.waiting import until

WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
SHORT = Limits(connect=4, acquire=5, command=0.3)


@pytest.fixture(scope="module")
def leader() -> Iterator[EmbeddedPostgres]:
    """A server of its own: what follows is set for all of it."""
    with reachable_directory() as directory:
        server = EmbeddedPostgres(directory / "data", extra_settings={"fsync": "off"})
        server.start()
        asyncio.run(migrate(server.url))
        yield server
        if server.pid:
            os.kill(server.pid, signal.SIGQUIT)
        server.stop()


@pytest.fixture
async def database(leader: EmbeddedPostgres) -> AsyncIterator[Database]:
    """Whose standby is away. This connection waits for none."""
    db = await Database.open(f"{leader.url}&synchronous_commit=local", pool_size=2)
    await db.execute(
        "INSERT INTO organizations (id, created_at) VALUES ('acme', 0) ON CONFLICT DO NOTHING"
    )
    await db.execute("DELETE FROM images")
    await _wait_for(db, "a_standby")
    try:
        yield db
    finally:
        await _wait_for(db, "")
        db.terminate()


async def _wait_for(db: Database, standby: str) -> None:
    await db.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
    await db.execute("SELECT pg_reload_conf()")
    await until(
        lambda: db.fetchval("SELECT current_setting('synchronous_standby_names') = $1", standby)
    )


@asynccontextmanager
async def waiting(leader: EmbeddedPostgres, limits: Limits) -> AsyncIterator[Database]:
    db = await Database.open(leader.url, pool_size=2, limits=limits)
    try:
        yield db
    finally:
        db.terminate()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IngestDirectory:
    monkeypatch.setattr("safelight.ingest.accept._LOOK_AGAIN_SECONDS", (0.01, 0.01))
    return IngestDirectory(tmp_path / "ingest", RandomIds())


async def test_what_no_standby_has_is_not_answered(
    leader: EmbeddedPostgres, database: Database, directory: IngestDirectory
) -> None:
    """The statement is given up, and the look at the database finds the row."""
    async with waiting(leader, SHORT) as db:
        with pytest.raises(OutcomeUnknown):
            await build(db, directory).accept(UPLOAD, good())
    assert len(left(directory)) == 1
    assert await database.fetchval("SELECT count(*) FROM images") == 1


async def test_a_wait_that_somebody_cancels(
    leader: EmbeddedPostgres, database: Database, directory: IngestDirectory
) -> None:
    """As an operator may who sees commits hang. The server then says that all went well."""
    async with waiting(leader, Limits(command=2)) as db:
        accepting = asyncio.create_task(build(db, directory).accept(UPLOAD, good()))
        pid = await until(lambda: database.fetchval(WAITS))
        await database.execute("SELECT pg_cancel_backend($1)", pid)
        with pytest.raises(OutcomeUnknown):
            await accepting


async def test_what_the_standby_has_is_answered(
    leader: EmbeddedPostgres, database: Database, directory: IngestDirectory
) -> None:
    """It comes back while the upload is being looked for."""
    async with waiting(leader, Limits(command=2)) as db:
        accepting = asyncio.create_task(build(db, directory).accept(UPLOAD, good()))
        pid = await until(lambda: database.fetchval(WAITS))
        await database.execute("SELECT pg_terminate_backend($1)", pid)
        await until(lambda: database.fetchval(f"{WAITS} AND pid <> $1", pid))
        await _wait_for(database, "")
        image = await accepting
    assert left(directory) == [f"{image.id}.png"]


async def test_any_other_statement_whose_waiting_is_cancelled(
    leader: EmbeddedPostgres, database: Database
) -> None:
    """What went well is in doubt, and its connection is lent no more."""
    async with waiting(leader, Limits(command=5)) as db:
        writing = asyncio.create_task(db.execute("UPDATE organizations SET created_at = 1"))
        pid = await until(lambda: database.fetchval(WAITS))
        await database.execute("SELECT pg_cancel_backend($1)", pid)
        with pytest.raises(asyncpg.StatementCompletionUnknownError):
            await writing
        assert await db.fetchval("SELECT pg_backend_pid()") != pid
