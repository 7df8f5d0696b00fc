"""Whoever records an upload also leases its job, and need not read back what it has just written."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cutting import cutting
from ingest.offloading import Yard
from ingest.test_accept import EXECUTION, LIMITS, UPLOAD, db, directory, good
from objects.shared import shared, shared_url
from objects.stores import units_of
from safelight.errors import NameTaken
from safelight.infra import failpoints
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.injected import ImageId, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Done, Job, Retry
from safelight.ingest import repo
from safelight.ingest.accept import Ingest, OnConflict
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OffloadPayload
from safelight.ingest.lifecycle import Image, ImageStatus, Recording

LEASE = timedelta(seconds=10)
__all__ = ["db", "directory", "shared", "shared_url"]


class Here:
    """A process that takes uploads in and has a worker with so many free slots."""

    def __init__(self, through: Database, directory: IngestDirectory, free: int = 1) -> None:
        self.free = free
        self.adopted: list[Job[Any]] = []
        self.known: dict[str, Image] = {}
        self.units: Units = units_of(through, SystemClock())
        self.units.employ("me", self.adopted.append, self)
        self.ingest = Ingest(
            self.units, directory, LIMITS, RandomIds(), Metrics(), LEASE,
            self.known.__setitem__,
        )  # fmt: skip

    def reserve(self, *_: str) -> bool:
        self.free -= 1
        if self.free < 0:
            self.free += 1
            return False
        return True

    def release(self, *_: str) -> None:
        self.free += 1


async def the_job(db: Database) -> tuple[Any, ...]:
    row = await db.fetchrow("SELECT id, status, owner, claim, attempts, payload FROM jobs")
    assert row
    return tuple(row)


@pytest.mark.parametrize("on_conflict", OnConflict)
@pytest.mark.parametrize("free", [0, 1])
async def test_its_job_is_leased_where_there_is_room(
    db: Database, directory: IngestDirectory, on_conflict: OnConflict, free: int
) -> None:
    here = Here(db, directory, free)
    image = await here.ingest.accept(replace(UPLOAD, on_conflict=on_conflict), good())
    job_id, *standing, payload = await the_job(db)
    assert payload == {"imageId": image.id}
    assert (here.known, here.free) == ({image.id: image}, free)
    if free:
        assert standing == ["running", "me", 1, 1]
        [job] = here.adopted
        assert (job.id, job.claim, job.attempt) == (job_id, 1, 1)
        assert job.payload == OffloadPayload(image.id)
    else:
        assert standing == ["queued", None, 0, 0]
        assert here.adopted == []
    assert await repo.find(db, image.id) == image, "what is remembered is what was written"


async def test_what_was_not_recorded_is_neither_kept_nor_known(
    db: Database, directory: IngestDirectory
) -> None:
    here = Here(db, directory)
    await here.ingest.accept(UPLOAD, good())
    here.adopted.clear()
    here.known.clear()
    with pytest.raises(NameTaken):
        await here.ingest.accept(replace(UPLOAD, on_conflict=OnConflict.REFUSE), good())
    failpoints.arm("ingest.record_uploads", "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await here.ingest.accept(UPLOAD, good())
    assert (here.adopted, here.known, here.free) == ([], {}, 1)


async def test_an_answer_that_was_lost_hands_over_nothing(
    db: Database, directory: IngestDirectory
) -> None:
    """It was recorded, and leased to us who do not know its job: the lease ends by itself."""
    async with cutting(db.url, EXECUTION) as (proxy, url):
        through = await Database.open(url, pool_size=2)
        proxy.mode = "after"
        here = Here(through, directory)
        await here.ingest.accept(UPLOAD, good())
        _, *standing, _ = await the_job(db)
        assert standing == ["running", "me", 1, 1]
        assert (here.adopted, here.known, here.free) == ([], {}, 1)
        through.terminate()


@pytest.mark.parametrize("why", [Recording.TAKEN, Recording.BUSY])
async def test_a_name_that_is_taken_or_being_chosen_records_nothing(
    db: Database, directory: IngestDirectory, why: Recording
) -> None:
    """Asked for in the statement itself, and not waited for."""
    image = await Here(db, directory, free=0).ingest.accept(UPLOAD, good())
    name = image.name if why is Recording.TAKEN else "free.png"
    again = replace(image, id=ImageId(f"{image.id}-2"), name=name)
    async with db.transaction() as other, db.connection() as connection:
        if why is Recording.BUSY:
            await other.execute("SELECT names_lock('acme')")
        recorded = await repo.record_upload_unless_taken(
            connection, again, "here", [], ("me", LEASE)
        )
        assert recorded == (why, None)
    assert await db.fetchval("SELECT count(*) FROM images") == 1
    assert await db.fetchval("SELECT count(*) FROM jobs") == 1


# What is known of it


@pytest.fixture
async def yard(shared: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    made = Yard(shared, tmp_path)
    yield made
    await made.close()


async def fresh(yard: Yard) -> Image:
    image = await yard.receive()
    yard.offload.fresh.remember(image.id, image)
    return image


async def test_neither_its_record_nor_its_bytes_are_read_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, measured = await fresh(yard), failpoints.observe("files.fsync_source")

    async def find(*_: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(repo, "find", find)
    assert await yard.bring(image) == Done(already=True)
    monkeypatch.undo()
    assert await yard.status(image) is ImageStatus.STORED
    assert await yard.content() == b"meow"
    assert (measured.passes, len(yard.offload.fresh)) == (0, 0)


async def test_a_second_attempt_reads_everything(yard: Yard) -> None:
    """Who knows what has happened to it since."""
    image, measured = await fresh(yard), failpoints.observe("files.fsync_source")
    failpoints.arm("ingest.put", "raise@1")
    assert isinstance(await yard.bring(image), Retry)
    assert await yard.bring(image) == Done(already=True)
    assert measured.passes == 1
    assert await yard.status(image) is ImageStatus.STORED


@pytest.mark.parametrize("content", [b"", b"meo", b"meows"])
async def test_a_file_that_is_not_as_long_as_it_was(yard: Yard, content: bytes) -> None:
    image = await fresh(yard)
    Path(image.temp_path).write_bytes(content)
    await yard.bring(image)
    assert await yard.status(image) is ImageStatus.FAILED


async def test_a_file_that_is_gone(yard: Yard) -> None:
    image = await fresh(yard)
    Path(image.temp_path).unlink()
    await yard.bring(image)
    assert await yard.status(image) is ImageStatus.FAILED


async def test_one_that_somebody_else_has_stored_meanwhile(yard: Yard) -> None:
    """What is remembered is old: the last statement sees it."""
    image = await yard.receive()
    await yard.bring(image)
    yard.offload.fresh.remember(image.id, image)
    row = await yard.db.fetchval("SELECT count(*) FROM object_events")
    await yard.db.execute("SELECT job_enqueue('ingest.offload', 'acme', $1, $2)", {"imageId": image.id}, image.id)  # fmt: skip
    assert await yard.bring(image) == Done(already=True)
    assert await yard.db.fetchval("SELECT count(*) FROM object_events") == row
