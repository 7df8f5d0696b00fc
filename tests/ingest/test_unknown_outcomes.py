"""An upload whose record was sent is kept until the database has said no. Whatever else happens, a
row may speak of its file."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from faults.relay import Relay, relay
from ingest.test_accept import EXECUTION, UPLOAD, build, counts, good, left
from safelight.infra import failpoints
from safelight.infra.connecting import Limits
from safelight.infra.db import Database
from safelight.infra.injected import ImageId, RandomIds
from safelight.ingest import repo
from safelight.ingest.accept import OnConflict
from safelight.ingest.contract import OutcomeUnknown
from safelight.ingest.directory import IngestDirectory

SHORT = Limits(connect=4, acquire=5, command=1, lock=0.5, idle=1)


@pytest.fixture
async def db(database: Database) -> Database:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    return database


@pytest.fixture
def directory(tmp_path: Path) -> IngestDirectory:
    return IngestDirectory(tmp_path / "ingest", RandomIds())


@asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[Relay, Database]]:
    async with relay(url) as (line, through):
        db = await Database.open(through, pool_size=2, limits=SHORT)
        try:
            yield line, db
        finally:
            db.terminate()


@pytest.mark.parametrize("on_conflict", OnConflict)
async def test_an_answer_that_never_comes(
    db: Database, directory: IngestDirectory, on_conflict: OnConflict
) -> None:
    """The server has committed, and the connection is silent: as with a server that stood still."""
    async with relayed(db.url) as (line, through):
        line.silence_at(EXECUTION)
        image = await build(through, directory).accept(
            replace(UPLOAD, on_conflict=on_conflict), good()
        )
        assert line.fell_silent.is_set()
    assert left(directory) == [f"{image.id}.png"]
    assert await counts(db) == (1, 1, 2)


async def test_an_answer_that_never_comes_from_a_server_that_cannot_be_asked(
    db: Database, directory: IngestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safelight.ingest.accept._LOOK_AGAIN_SECONDS", (0.01, 0.01))
    async with relayed(db.url) as (line, through):
        line.silence_at(EXECUTION, everything=True)
        with pytest.raises(OutcomeUnknown):
            await build(through, directory).accept(UPLOAD, good())
    assert len(left(directory)) == 1
    assert await counts(db) == (1, 1, 2)


@asynccontextmanager
async def stopped(backend: int) -> AsyncIterator[None]:
    """A process of the server that is not scheduled any more, and so does not die either."""
    os.kill(backend, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(backend, signal.SIGCONT)


async def test_a_backend_that_does_not_die_may_still_commit(
    db: Database, directory: IngestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safelight.ingest.repo._TERMINATE_MS", 50)
    monkeypatch.setattr("safelight.ingest.accept._LOOK_AGAIN_SECONDS", (0.01, 0.01))
    through = await Database.open(db.url, pool_size=1, limits=SHORT)
    backend = await through.fetchval("SELECT pg_backend_pid()")
    async with stopped(backend):
        assert await repo.was_recorded(db, ImageId("img_x"), backend) is None
        with pytest.raises(OutcomeUnknown):
            await build(through, directory).accept(UPLOAD, good())
    through.terminate()
    assert len(left(directory)) == 1


@pytest.mark.parametrize("point", ["ingest.record_uploads", "ingest.recorded"])
async def test_cancelled_once_it_was_received_it_goes_on_to_its_end(
    db: Database, directory: IngestDirectory, point: str
) -> None:
    armed = failpoints.arm(point, "hold")
    ingest = build(db, directory)
    task = asyncio.create_task(ingest.accept(UPLOAD, good()))
    await armed.passed()
    task.cancel()
    await asyncio.sleep(0)
    failpoints.disarm()
    image = await task
    assert left(directory) == [f"{image.id}.png"]
    assert await counts(db) == (1, 1, 2)
    await ingest.close()


async def test_nobody_waits_for_it_and_it_goes_on_all_the_same(
    db: Database, directory: IngestDirectory
) -> None:
    armed = failpoints.arm("ingest.record_uploads", "hold")
    ingest = build(db, directory)
    task = asyncio.create_task(ingest.accept(UPLOAD, good()))
    await armed.passed()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    failpoints.disarm()
    await ingest.close()
    assert await counts(db) == (1, 1, 2)
    assert len(left(directory)) == 1
