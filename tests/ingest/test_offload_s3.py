"""Offloading to a bucket: the same promises, kept without a transaction that spans both."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest.offloading import Yard
from objects.shared import shared, shared_url
from objects.stores import Bucket, Watch, events, fresh_bucket
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.queue.jobs import Done, Retry
from safelight.ingest.lifecycle import ImageStatus
from seaweed import Seaweed

__all__ = ["shared", "shared_url"]
ENDED = Done(already=True)


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


@pytest.fixture(params=["own", "bucket"])
async def yard(
    request: pytest.FixtureRequest, shared: Database, bucket: Bucket, tmp_path: Path
) -> AsyncIterator[Yard]:
    clock = Watch()
    store = bucket.store(shared, tmp_path / "spool", clock, events=request.param)
    made = Yard(shared, tmp_path, clock, store)
    yield made
    await made.close()
    assert await shared.fetchval("SELECT count(*) FROM blobs") == 0


def tells(yard: Yard) -> bool:
    return getattr(yard.store, "_place", "") == "bucket"


async def test_an_upload_is_stored(yard: Yard, bucket: Bucket) -> None:
    image = await yard.receive("größe.jpg")
    assert await yard.bring(image) == ENDED
    assert await yard.status(image) is ImageStatus.STORED
    assert bucket.keys() == ["acme/größe.jpg"]
    assert yard.store
    info = await yard.store.head("acme/größe.jpg")
    assert (info.metadata["idempotencyKey"], info.metadata["imageId"]) == (
        image.idempotency_key,
        image.id,
    )
    assert info.metadata["name"] == "größe.jpg"
    [told] = await yard.history("upload:größe.jpg")
    assert (told["type"], told["to"]) == ("upload_stored", "STORED")
    assert len(await events(yard.db)) == len(await yard.jobs_left()) == tells(yard)


async def test_the_newest_wins(yard: Yard) -> None:
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    await yard.bring(new)
    assert await yard.bring(old) == ENDED
    assert await yard.content() == b"new"
    assert await yard.status(old) is ImageStatus.STORED
    [told] = await yard.history(f"image:{old.id}")
    assert (told["type"], told["reason"]) == ("image_superseded", "superseded")
    assert Path(old.temp_path).read_bytes() == b"old"


async def test_all_at_once(yard: Yard) -> None:
    images = [await yard.receive(content=b"%d" % n) for n in range(6)]
    await asyncio.gather(*map(yard.bring, reversed(images)))
    assert await yard.content() == b"5"


async def test_a_deleted_name_stays_away(yard: Yard) -> None:
    stored, waiting = await yard.receive(content=b"1"), await yard.receive(content=b"2")
    await yard.bring(stored)
    await yard.delete()
    await yard.bring(waiting)
    assert await yard.content() is None
    assert (await yard.history(f"image:{waiting.id}"))[-1]["reason"] == "deleted"


async def test_a_file_that_is_not_what_was_received(yard: Yard, bucket: Bucket) -> None:
    changed, missing = await yard.receive("a.jpg"), await yard.receive("b.jpg")
    Path(changed.temp_path).write_bytes(b"meoW")
    Path(missing.temp_path).unlink()
    for image in (changed, missing):
        assert await yard.bring(image) == ENDED
        assert await yard.status(image) is ImageStatus.FAILED
    assert bucket.keys() == []


@pytest.mark.parametrize("point", ["objects.record_bucket_put", "ingest.store@2"])
async def test_cut_off_after_the_bucket_has_it(yard: Yard, point: str) -> None:
    """The job comes again, finds nothing recorded, and does it once more; then all is told once."""
    image = await yard.receive()
    name, _, nth = point.partition("@")
    failpoints.arm(name, f"raise@{nth or 1}")
    assert isinstance(await yard.bring(image), Retry)
    failpoints.disarm()
    assert await yard.status(image) is ImageStatus.INGESTED
    assert await yard.content() == b"meow"
    assert await yard.bring(image) == ENDED
    await yard.settle()
    assert len(await events(yard.db)) == tells(yard)
    assert await yard.db.fetchval("SELECT count(*) FROM object_outbox") == 0


async def test_a_store_that_is_away(yard: Yard) -> None:
    image = await yard.receive()
    failpoints.arm("objects.bucket_put", "enospc@1")
    assert isinstance(await yard.bring(image), Retry)
    assert await yard.status(image) is ImageStatus.INGESTED
    assert await yard.bring(image) == ENDED
