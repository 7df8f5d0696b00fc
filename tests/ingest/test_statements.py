"""Statements that write only what is still theirs to write: each guard has its own short story."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ingest.offloading import Yard
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.ingest import repo
from safelight.ingest.lifecycle import Image, ImageStatus, OffloadOutcome
from safelight.library import repo as library
from safelight.objects import repo as objects
from safelight.objects.store import Cleared, Facts, Landed, Place

LINE = Line("test", "told")
LINES: dict[str, Line] = {OffloadOutcome.STORED: LINE, OffloadOutcome.BEATEN: LINE}


@pytest.fixture
async def yard(database: Database, tmp_path: Path) -> AsyncIterator[Yard]:
    await database.execute("INSERT INTO organizations (id, created_at) VALUES ('acme', 0)")
    made = Yard(database, tmp_path)
    yield made
    await made.close()


async def store(yard: Yard, image: Image, place: Place = Place.BUCKET) -> OffloadOutcome:
    """Whatever became of it since its row was read."""
    job = await yard.claim(image)
    landed = Landed(place, "etag", image.size_bytes, image.checksum)
    stored = await repo.store(
        yard.db, image, landed, "node", {}, LINES, 5, job, (None, yard.queue.lease)
    )
    return stored.outcome


async def everything(yard: Yard) -> list[list[Any]]:
    tables = ("images", "objects", "object_events", "activity")
    return [await yard.db.fetch(f"SELECT * FROM {table}") for table in tables]


@pytest.mark.parametrize("status", [ImageStatus.STORED, ImageStatus.FAILED])
async def test_an_image_that_is_over_is_neither_stored_nor_failed_again(
    yard: Yard, status: ImageStatus
) -> None:
    images = [await yard.receive("a.jpg"), await yard.receive("b.jpg")]
    await yard.db.execute("UPDATE images SET status = $1", status)
    before = await everything(yard)
    assert await store(yard, images[0]) is OffloadOutcome.ALREADY_DONE
    job = await yard.claim(images[1])
    assert await repo.fail(yard.db, images[1], LINE, 5, job) is OffloadOutcome.ALREADY_DONE
    assert await everything(yard) == before
    assert await yard.db.fetchval("SELECT count(*) FROM jobs") == 0


async def test_bytes_are_wanted_only_of_an_image_that_nothing_beats(yard: Yard) -> None:
    """A bucket is asked this before it is written: what is beaten must not get there."""
    image = await yard.receive()
    assert await store(yard, image, Place.INGEST) is OffloadOutcome.WANTED
    await yard.delete()
    assert await store(yard, image, Place.INGEST) is OffloadOutcome.BEATEN
    assert await yard.status(image) is ImageStatus.STORED


async def test_a_name_is_known_by_its_own_images_alone(yard: Yard) -> None:
    await yard.receive("a.jpg")
    assert await library.was_ever_seen(yard.db, "acme", "a.jpg")
    assert not await library.was_ever_seen(yard.db, "acme", "b.jpg")
    assert not await library.was_ever_seen(yard.db, "else", "a.jpg")


BLOB = 64 * "a"
FACTS = Facts("image/jpeg")
GONE = Cleared(Place.BUCKET)


async def test_whatever_concerns_an_object_waits_for_its_lock(yard: Yard) -> None:
    landed = Landed(Place.BUCKET, "etag", 1, BLOB)
    await waits(yard, "object_lock('acme/a')", lambda c: objects.put(c, "acme/a", landed, FACTS, 1))
    await waits(yard, "object_lock('acme/a')", lambda c: objects.delete(c, "acme/a", GONE, 1))
    await waits(yard, "object_lock('acme/a')", lambda c: objects.share(c, "acme/a", "e", "p/1", 1))


async def test_a_put_waits_for_whoever_removes_files_of_its_shard(yard: Yard) -> None:
    landed = Landed(Place.BLOB, BLOB, 1, BLOB, written=True)
    await waits(yard, "shard_lock('aa')", lambda c: objects.put(c, "acme/a", landed, FACTS, 1))


async def waits(yard: Yard, lock: str, write: Callable[[Any], Awaitable[object]]) -> None:
    async with yard.db.connection() as holding, holding.transaction():
        await holding.execute(f"SELECT {lock}")
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with yard.db.transaction() as waiting:
                await waiting.execute("SET LOCAL lock_timeout = '50ms'")
                await write(waiting)


async def test_a_blob_is_condemned_once(yard: Yard) -> None:
    """Or whoever condemns until nothing is left to condemn never ends."""
    insert = "INSERT INTO blobs (sha256, size, released_at) VALUES ($1, 1, 1)"
    await yard.db.execute(insert, BLOB)
    assert [await objects.condemn(yard.db, 9, 10) for _ in range(2)] == [1, 0]
