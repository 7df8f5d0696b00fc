"""What is left behind when a step of the upload fails: nothing, or exactly what must be kept."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cutting import cutting
from harness import picture
from objects.stores import Watch, units_of
from safelight.errors import SafelightError
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.injected import RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.ingest.accept import Ingest, OnConflict, TooManyUnderWay, UploadRequest
from safelight.ingest.contract import DatabaseError, JobEnqueueError, OutcomeUnknown, StorageFull
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.receive import UploadLimits
from safelight.ingest.sweep import LATE_MS, IngestSweep
from safelight.setting_kinds import ACCEPTED_TYPES
from safelight.settings import load
from safelight.testing.base import open_base

LIMITS = UploadLimits(10_000_000, 100_000_000, ACCEPTED_TYPES)
UPLOAD = UploadRequest("acme", "multipart/form-data; boundary=b", {"type": "token", "name": "t"})
# Of the one statement that records an upload: its text is sent once, to be prepared; this is among
# the values it is executed with.
EXECUTION = b"image_uploaded"
DISK_STEPS = [f"ingest.{step}" for step in ("open", "write", "fsync", "rename", "fsync_directory")]


async def body(content: bytes) -> AsyncIterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    yield content
    yield b"\r\n--b--\r\n"


def good() -> AsyncIterator[bytes]:
    return body(picture("PNG"))


def build(db: Database, directory: IngestDirectory, limits: UploadLimits = LIMITS) -> Ingest:
    return Ingest(
        units_of(db, SystemClock()), directory, limits, RandomIds(), Metrics(),
        timedelta(seconds=10), lambda _id, _image: None,
    )  # fmt: skip


@pytest.fixture
async def db(database: Database) -> Database:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    return database


@pytest.fixture
def directory(tmp_path: Path) -> IngestDirectory:
    return IngestDirectory(tmp_path / "ingest", RandomIds())


def left(directory: IngestDirectory) -> list[str]:
    return [found.path.name for found in directory.files()]


async def counts(db: Database) -> tuple[Any, ...]:
    row = await db.fetchrow(
        "SELECT (SELECT count(*) FROM images), (SELECT count(*) FROM jobs), "
        "(SELECT count(*) FROM activity)"
    )
    assert row
    return tuple(row)


async def assert_nothing_left(db: Database, directory: IngestDirectory) -> None:
    assert left(directory) == []
    assert await counts(db) == (0, 0, 0)
    failpoints.disarm()
    await build(db, directory).accept(UPLOAD, good())
    assert await counts(db) == (1, 1, 2)


@pytest.mark.parametrize("step", DISK_STEPS)
async def test_disk_full(db: Database, directory: IngestDirectory, step: str) -> None:
    failpoints.arm(step, "enospc")
    with pytest.raises(StorageFull):
        await build(db, directory).accept(UPLOAD, good())
    await assert_nothing_left(db, directory)


@pytest.mark.parametrize("step", [*DISK_STEPS, "ingest.record_uploads"])
async def test_something_unexpected(db: Database, directory: IngestDirectory, step: str) -> None:
    failpoints.arm(step, "raise")
    with pytest.raises(FailpointError):
        await build(db, directory).accept(UPLOAD, good())
    await assert_nothing_left(db, directory)


async def test_cancelled_in_mid_write(db: Database, directory: IngestDirectory) -> None:
    started = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        async for chunk in body(picture("PNG") + bytes(2_000_000)):
            yield chunk
            started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(build(db, directory).accept(UPLOAD, slow()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await assert_nothing_left(db, directory)


@pytest.mark.parametrize(("table", "error"), [("images", DatabaseError), ("jobs", JobEnqueueError)])
async def test_the_database_refuses(
    db: Database, directory: IngestDirectory, table: str, error: type[SafelightError]
) -> None:
    await db.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    with pytest.raises(error):
        await build(db, directory).accept(UPLOAD, good())
    await db.execute(f"ALTER TABLE elsewhere RENAME TO {table}")
    await assert_nothing_left(db, directory)


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("on_conflict", OnConflict)
async def test_the_connection_is_lost_during_commit(
    db: Database, directory: IngestDirectory, on_conflict: OnConflict, mode: str
) -> None:
    wanted = replace(UPLOAD, on_conflict=on_conflict)
    async with cutting(db.url, EXECUTION) as (proxy, url):
        through = await Database.open(url, pool_size=2)
        proxy.mode = mode
        ingest = build(through, directory)
        if mode == "after":  # it did commit, so it did happen
            image = await ingest.accept(wanted, good())
            assert await db.fetchval("SELECT name FROM images") == image.name
            assert left(directory) == [f"{image.id}.png"]
            assert await counts(db) == (1, 1, 2)
        else:
            with pytest.raises(DatabaseError):
                await ingest.accept(wanted, good())
            await assert_nothing_left(db, directory)
        through.terminate()


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("on_conflict", OnConflict)
async def test_an_unknown_outcome_keeps_the_file_and_the_sweep_decides(
    db: Database,
    directory: IngestDirectory,
    on_conflict: OnConflict,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = replace(UPLOAD, on_conflict=on_conflict)
    monkeypatch.setattr("safelight.ingest.accept._LOOK_AGAIN_SECONDS", (0.01, 0.01))
    async with cutting(db.url, EXECUTION) as (proxy, url):
        through = await Database.open(url, pool_size=2)
        proxy.mode, proxy.refuse_afterwards = mode, True
        with pytest.raises(OutcomeUnknown):
            await build(through, directory).accept(wanted, good())
        through.terminate()
    assert len(left(directory)) == 1
    clock = Watch(SystemClock().now_ms() + LATE_MS + 1000)
    async with open_base(load({}), db.url, clock=clock, node=directory.node) as base:
        sweep = IngestSweep(base.queue, directory, clock, Metrics(), 86_400)
        moved = await sweep.at_start()
    assert (moved, len(left(directory))) == ((0, 1) if mode == "after" else (1, 0))


async def test_concurrent_uploads_find_different_names(
    db: Database, directory: IngestDirectory
) -> None:
    ingest = build(db, directory)
    wanted = replace(UPLOAD, on_conflict=OnConflict.RENAME)
    images = await asyncio.gather(*(ingest.accept(wanted, good()) for _ in range(12)))
    assert len({image.name for image in images}) == 12


async def test_uploads_on_their_way_fill_the_places_of_their_own_organization(
    db: Database, directory: IngestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes on their way are no quota's yet: slow clients could fill the disk with them."""
    await db.execute("INSERT INTO organizations (id, created_at) VALUES ('globex', 0)")
    ingest, go_on = build(db, directory, replace(LIMITS, at_once=2)), asyncio.Event()
    begun: list[int] = []

    async def slow(number: int) -> AsyncIterator[bytes]:
        begun.append(number)
        await go_on.wait()
        async for chunk in good():
            yield chunk

    tasks = [asyncio.create_task(ingest.accept(UPLOAD, slow(number))) for number in range(4)]
    await ingest.accept(replace(UPLOAD, organization="globex"), good())
    assert begun == [0, 1], "the others wait, unread"
    monkeypatch.setattr("safelight.ingest.accept._TURN_SECONDS", 0.01)
    with pytest.raises(TooManyUnderWay):
        await ingest.accept(UPLOAD, good())
    go_on.set()
    await asyncio.gather(*tasks)
    assert (begun, len(left(directory))) == ([0, 1, 2, 3], 5)
