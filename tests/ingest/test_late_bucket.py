"""A bucket applies a write after its client gave up, or we are cut off while bytes travel: the newest
upload is what the bucket ends with, and a deleted name stays deleted."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from faults.late_bucket import LateBucket, late_bucket
from ingest.offloading import Yard
from objects.shared import shared, shared_url
from objects.stores import Bucket, Watch, events, fresh_bucket
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Dead, Done, LeaseLost, Retry
from safelight.ingest import repo
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.put_back import LOST
from safelight.ingest.sweep import IngestSweep
from safelight.objects.store import ObjectInfo, StoreUnavailable
from seaweed import Seaweed

__all__ = ["shared", "shared_url"]
ENDED = Done(already=True)
KEY = "acme/cat.jpg"


@pytest.fixture
def late(weed: Seaweed) -> Iterator[LateBucket]:
    with late_bucket(weed.address) as found:
        yield found


@pytest.fixture
def bucket(weed: Seaweed, late: LateBucket) -> Bucket:
    made = fresh_bucket(weed)
    return Bucket(late.address, made.name, made.client)


@pytest.fixture(params=["own", "bucket"])
async def yard(
    request: pytest.FixtureRequest, shared: Database, bucket: Bucket, tmp_path: Path
) -> AsyncIterator[Yard]:
    clock = Watch()
    store = bucket.store(shared, tmp_path / "spool", clock, events=request.param)
    made = Yard(shared, tmp_path, clock, store)
    yield made
    await made.close()


@asynccontextmanager
async def another(yard: Yard, bucket: Bucket) -> AsyncIterator[Yard]:
    """A second process beside the first."""
    told = "own" if tells(yard) else "bucket"
    store = bucket.store(yard.db, yard.root / "spool", yard.clock, events=told)
    made = Yard(yard.db, yard.root, yard.clock, store)
    yield made
    await made.close()


async def indexed(yard: Yard) -> str | None:
    marker: str | None = await yard.db.fetchval(
        "SELECT metadata ->> 'imageId' FROM objects WHERE key = $1 AND present", KEY
    )
    return marker


async def tickets(yard: Yard) -> int:
    return int(await yard.db.fetchval("SELECT count(*) FROM object_outbox"))


async def told(yard: Yard) -> list[str]:
    return [action for action, _, _ in await events(yard.db)]


def tells(yard: Yard) -> bool:
    return getattr(yard.store, "_place", "") == "bucket"


async def test_a_late_put_does_not_bring_a_deleted_name_back(
    yard: Yard, bucket: Bucket, late: LateBucket
) -> None:
    image = await yard.receive()
    held = late.hold("PUT", KEY)
    assert isinstance(await yard.bring(image), Retry)
    late.let_through()
    await yard.delete()
    assert await yard.bring(image) == ENDED
    await held.apply()
    assert await yard.content() == b"meow", "the bucket did not apply it"
    await yard.settle()
    assert await yard.content() is None
    assert (await indexed(yard), await tickets(yard)) == (None, 0)
    assert await told(yard) == ["deleted"] * tells(yard)


async def test_a_late_put_does_not_replace_a_newer_upload(yard: Yard, late: LateBucket) -> None:
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    held = late.hold("PUT", KEY)
    assert isinstance(await yard.bring(old), Retry)
    late.let_through()
    assert await yard.bring(new) == ENDED
    assert await yard.bring(old) == ENDED
    await held.apply()
    assert await yard.content() == b"old", "the bucket did not apply it"
    await yard.settle()
    assert await yard.content() == b"new"
    assert (await indexed(yard), await tickets(yard)) == (new.id, 0)
    assert await told(yard) == ["created"] * tells(yard)


async def test_a_put_that_was_sent_again_is_applied_twice(yard: Yard, late: LateBucket) -> None:
    """The first sending outlives the second, and the delete that came after both."""
    image = await yard.receive()
    held = late.hold("PUT", KEY, most=1)
    if isinstance(await yard.bring(image), Retry):
        assert await yard.bring(image) == ENDED
    await yard.delete()
    await held.apply()
    assert await yard.content() == b"meow", "the bucket did not apply it"
    await yard.settle()
    assert await yard.content() is None
    assert (await indexed(yard), await tickets(yard)) == (None, 0)
    assert await told(yard) == ["created", "deleted"] * tells(yard)


async def test_a_late_delete_does_not_end_a_newer_upload(yard: Yard, late: LateBucket) -> None:
    await yard.bring(await yard.receive(content=b"old"))
    held = late.hold("DELETE", KEY)
    with pytest.raises(StoreUnavailable):
        await yard.delete()
    late.let_through()
    new = await yard.receive(content=b"new")
    assert await yard.bring(new) == ENDED
    await held.apply()
    assert await yard.content() is None, "the bucket did not apply it"
    await yard.settle()
    assert await yard.content() == b"new"
    assert (await indexed(yard), await tickets(yard)) == (new.id, 0)


async def test_the_database_is_lost_while_bytes_travel(
    yard: Yard, bucket: Bucket, late: LateBucket
) -> None:
    """Fault 3: whoever was cut off reaches the bucket last."""
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    held = late.hold("PUT", KEY, answer=None, most=1)
    first = asyncio.create_task(yard.bring(old))
    await held.arrived()
    await yard.db.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle%'"
    )
    async with another(yard, bucket) as other:
        assert await other.bring(new) == ENDED
    await held.apply()
    await asyncio.wait([first])
    assert await yard.content() == b"old", "the bucket did not apply it"
    while await yard.status(old) is ImageStatus.INGESTED:
        await yard.bring(old)
    await yard.settle()
    assert await yard.content() == b"new"
    assert (await indexed(yard), await tickets(yard)) == (new.id, 0)


async def test_two_puts_recorded_in_another_order_than_applied(yard: Yard, bucket: Bucket) -> None:
    """Both end well, and the bucket holds what the index does not say."""
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    recording = failpoints.arm("objects.record_bucket_put", "hold@1")
    first = asyncio.create_task(yard.bring(new))
    await recording.passed()
    async with another(yard, bucket) as other:
        assert await asyncio.wait_for(other.bring(old), 20) == ENDED
    failpoints.disarm()
    assert await first == ENDED
    assert "objects.settle" in await yard.jobs_left(), "nobody waits for its next turn"
    assert await yard.content() == b"old", "the older one was to reach the bucket last"
    await yard.settle()
    assert await yard.content() == b"new"
    assert (await indexed(yard), await tickets(yard)) == (new.id, 0)


async def test_the_lease_is_lost_while_bytes_travel(yard: Yard, bucket: Bucket) -> None:
    """What was put has its ticket until somebody has answered for it."""
    image = await yard.receive()
    job = await yard.claim(image)
    recording = failpoints.arm("objects.record_bucket_put", "hold@1")
    first = asyncio.create_task(yard.offload.handle(job))
    await recording.passed()
    again = await yard.claim(image)
    failpoints.disarm()
    with pytest.raises(LeaseLost):
        await first
    Path(image.temp_path).unlink()
    assert await yard.offload.handle(again) == ENDED
    assert await yard.status(image) is ImageStatus.FAILED
    await yard.settle()
    assert bucket.keys() == ["acme/cat.jpg"]  # the only copy there is, for a person to decide about
    assert (await indexed(yard), await tickets(yard)) == (None, 0)


async def test_cut_off_between_the_buckets_delete_and_its_record(yard: Yard) -> None:
    """16c: also where the bucket tells by itself, the index comes to say what is."""
    await yard.bring(await yard.receive())
    failpoints.arm("objects.record_bucket_delete", "raise@1")
    with pytest.raises(FailpointError):
        await yard.delete()
    await yard.settle()
    assert (await indexed(yard), await tickets(yard)) == (None, 0)
    assert await told(yard) == ["created", "deleted"] * tells(yard)


async def test_no_transaction_is_open_while_bytes_travel(yard: Yard, late: LateBucket) -> None:
    """And nobody waits for them who could answer a person."""
    image = await yard.receive()
    held = late.hold("PUT", KEY, answer=None, most=1)
    first = asyncio.create_task(yard.bring(image))
    await held.arrived()
    open_ones = await yard.db.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
    try:
        assert open_ones == 0
        await asyncio.wait_for(yard.delete(), 10)
    finally:
        await held.apply()
        await asyncio.wait([first])
    assert await yard.status(image) is ImageStatus.STORED
    await yard.settle()
    assert await yard.content() is None
    assert (await indexed(yard), await tickets(yard)) == (None, 0)


# Settling is cut off


async def replaced_by_an_older(yard: Yard, late: LateBucket) -> tuple[Image, Image]:
    old, new = await yard.receive(content=b"old"), await yard.receive(content=b"new")
    held = late.hold("PUT", KEY)
    assert isinstance(await yard.bring(old), Retry)
    late.let_through()
    assert await yard.bring(new) == ENDED
    assert await yard.bring(old) == ENDED
    await held.apply()
    return old, new


@pytest.mark.parametrize(
    "point",
    ["ingest.put_back", "objects.put_off", "ingest.restore", "objects.issue_ticket",
     "objects.bucket_put", "objects.record_bucket_put", "objects.mended", "objects.redeem"],
)  # fmt: skip
async def test_cut_off_while_the_winner_is_put_back(
    yard: Yard, late: LateBucket, point: str
) -> None:
    _, new = await replaced_by_an_older(yard, late)
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await yard.settle()
    assert armed.passes
    assert await tickets(yard)
    await yard.settle()
    assert await yard.content() == b"new"
    assert (await indexed(yard), await tickets(yard)) == (new.id, 0)
    assert await told(yard) == ["created"] * tells(yard)


@pytest.mark.parametrize(
    "point",
    ["objects.issue_ticket", "objects.erase", "objects.mended", "objects.redeem"],
)
async def test_cut_off_while_a_deleted_name_is_erased(
    yard: Yard, late: LateBucket, point: str
) -> None:
    image = await yard.receive()
    held = late.hold("PUT", KEY)
    assert isinstance(await yard.bring(image), Retry)
    late.let_through()
    await yard.delete()
    assert await yard.bring(image) == ENDED
    await held.apply()
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await yard.settle()
    assert armed.passes
    assert await tickets(yard)
    await yard.settle()
    assert await yard.content() is None
    assert (await indexed(yard), await tickets(yard)) == (None, 0)
    assert await told(yard) == ["deleted"] * tells(yard)


async def test_the_winners_file_is_gone(yard: Yard, late: LateBucket) -> None:
    """Then the bucket is all there is, and a dead letter says what was lost."""
    old, new = await replaced_by_an_older(yard, late)
    Path(new.temp_path).unlink()
    armed = failpoints.arm("ingest.forget_file", "raise@1")
    with pytest.raises(FailpointError):
        await yard.settle()
    assert armed.passes
    await yard.settle()
    assert (await indexed(yard), await tickets(yard)) == (old.id, 0)
    assert yard.buried == [Dead(LOST)]


async def test_the_file_stays_while_a_ticket_is_open(yard: Yard, late: LateBucket) -> None:
    old, new = await replaced_by_an_older(yard, late)
    assert await repo.unsettled(yard.db, [old.id, new.id]) == {old.id, new.id}
    yard.clock.ms = yard.clock.now_ms() + 3 * 86_400_000
    sweep = IngestSweep(yard.queue, yard.directory, yard.clock, Metrics(), 86_400)
    await sweep.run()
    assert Path(new.temp_path).exists()
    await yard.settle()
    await sweep.run()
    assert not Path(new.temp_path).exists()
    assert await yard.content() == b"new"


async def test_an_image_under_way_answers_for_itself(yard: Yard, late: LateBucket) -> None:
    image = await yard.receive()
    held = late.hold("PUT", KEY)
    assert isinstance(await yard.bring(image), Retry)
    late.let_through()
    await held.apply()
    await yard.settle()
    assert await tickets(yard) == 1
    assert (await indexed(yard), await told(yard)) == (None, [])
    assert await yard.bring(image) == ENDED
    await yard.settle()
    assert (await indexed(yard), await tickets(yard)) == (image.id, 0)
    assert await told(yard) == ["created"] * tells(yard)


async def test_recorded_while_the_bucket_is_asked(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the index said before and what became of the image since do not belong together."""
    image = await yard.receive()
    failpoints.arm("objects.record_bucket_put", "raise@1")
    assert isinstance(await yard.bring(image), Retry)
    failpoints.disarm()
    store = yard.store
    assert store
    head = store.head

    async def slow(key: str) -> ObjectInfo:
        found = await head(key)
        monkeypatch.undo()
        assert await yard.bring(image) == ENDED
        return found

    monkeypatch.setattr(store, "head", slow)
    await yard.settle()
    assert await yard.content() == b"meow"
    assert (await indexed(yard), await tickets(yard)) == (image.id, 0)


async def test_recorded_before_what_came_late_is_erased(
    yard: Yard, bucket: Bucket, late: LateBucket
) -> None:
    old = await yard.receive(content=b"old")
    held = late.hold("PUT", KEY)
    assert isinstance(await yard.bring(old), Retry)
    late.let_through()
    await yard.delete()
    assert await yard.bring(old) == ENDED
    await held.apply()
    erasing = failpoints.arm("objects.issue_ticket", "hold@1")
    settling = asyncio.create_task(yard.settle())
    await erasing.passed()
    async with another(yard, bucket) as beside:
        new = await beside.receive(content=b"new")
        assert await beside.bring(new) == ENDED
    failpoints.disarm()
    await settling
    await yard.settle()
    assert await yard.content() == b"new"
    assert (await indexed(yard), await tickets(yard)) == (new.id, 0)
