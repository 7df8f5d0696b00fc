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


async def test_whether_bytes_are_wanted_is_asked_under_the_objects_lock(yard: Yard) -> None:
    image = await yard.receive("a")
    job, landed = await yard.claim(image), Landed(Place.INGEST, "", 1, BLOB)
    lessee = (None, yard.queue.lease)
    await waits(
        yard,
        "object_lock('acme/a')",
        lambda c: repo.store(c, image, landed, "node", {}, LINES, 5, job, lessee),
    )


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


async def intend(yard: Yard, image: Image) -> None:
    await yard.db.execute(
        "INSERT INTO delete_intents VALUES ($1, 'acme', $2, 1)", image.id, image.name
    )


async def become(yard: Yard, image: Image, status: ImageStatus) -> None:
    await yard.db.execute("UPDATE images SET status = $2 WHERE id = $1", image.id, status)


async def index(yard: Yard, name: str, image: Image) -> None:
    """The object of that name is that image."""
    landed = Landed(Place.BUCKET, "etag", 1, BLOB)
    facts = Facts("image/jpeg", {"imageId": image.id})
    await objects.put(yard.db, f"acme/{name}", landed, facts, 1)


async def test_on_its_way_is_the_newest_of_a_name_that_is_not_deleted(yard: Yard) -> None:
    lone, deleted = await yard.receive("a"), await yard.receive("b")
    await intend(yard, deleted)
    _, newer = await yard.receive("c"), await yard.receive("c")
    await become(yard, await yard.receive("d"), ImageStatus.STORED)
    failed = await yard.receive("e")
    await become(yard, failed, ImageStatus.FAILED)

    async def on_their_way(names: list[str] | None) -> list[str]:
        found = await repo.on_their_way(yard.db, "acme", names, failed_since=0, limit=9)
        return [image.id for image in found]

    assert await on_their_way(None) == [failed.id, newer.id, lone.id]
    assert await on_their_way(["a", "b", "c", "d"]) == [newer.id, lone.id]


async def test_by_name_it_is_on_its_way_while_it_is_the_object(yard: Yard) -> None:
    stored, other = await yard.receive("a"), await yard.receive("b")
    for image in (stored, other):
        await become(yard, image, ImageStatus.STORED)
        await index(yard, image.name, stored)
    found = await repo.on_their_way(yard.db, "acme", ["a", "b"], failed_since=0, limit=9)
    assert [image.id for image in found] == [stored.id]
    assert await repo.is_object(yard.db, stored)
    assert not await repo.is_object(yard.db, other)


async def test_a_name_is_taken_while_an_image_is_on_its_way_to_it(yard: Yard) -> None:
    image = await yard.receive("a")

    async def taken(name: str) -> bool:
        under_way = await repo.is_under_way(yard.db, "acme", name)
        free = await repo.free_name(yard.db, "acme", name, numbered=False)
        assert free == (None if under_way else name)
        return under_way

    assert await taken("a")
    assert not await taken("b")
    await become(yard, image, ImageStatus.STORED)
    assert not await taken("a")
    await become(yard, image, ImageStatus.INGESTED)
    await intend(yard, image)
    assert not await taken("a")


async def test_a_delete_forbids_what_is_on_its_way_to_its_name(yard: Yard) -> None:
    image, stored, _ = [await yard.receive(name) for name in ("a", "a", "b")]
    await become(yard, stored, ImageStatus.STORED)
    await yard.delete("a")
    rows = await yard.db.fetch("SELECT image_id FROM delete_intents")
    assert [row["image_id"] for row in rows] == [image.id]


async def test_a_file_may_be_needed_while_a_write_of_its_name_is_open(yard: Yard) -> None:
    images = [await yard.receive(name) for name in ("a", "b")]
    await yard.db.execute(
        "INSERT INTO object_outbox (action, key, begun_at) VALUES ('created', 'acme/a', 1)"
    )
    ids = [image.id for image in images]
    assert await repo.unsettled(yard.db, ids) == {ids[0]}


async def test_only_a_backend_that_was_ours_is_ended(yard: Yard) -> None:
    """Its number may be somebody else's by now, or that of whoever asks."""
    image = await yard.receive()
    async with yard.db.connection() as other, yard.db.transaction() as asking:
        numbers = [connection.get_server_pid() for connection in (other, asking)]
        assert await repo.was_recorded(asking, image.id, numbers[1])  # type: ignore[arg-type]
        await asking.execute("GRANT UPDATE ON images TO pg_read_all_data")  # it locks the row
        await asking.execute("SET LOCAL ROLE pg_read_all_data")
        assert await repo.was_recorded(asking, image.id, numbers[0])  # type: ignore[arg-type]
        assert await other.fetchval("SELECT true")
