"""The short road is open where a name is as expected, and ends as the general one would."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from library.arriving import ask, everything, landed, ready, told
from library.conftest import MakeWorld
from library.moves import Moves
from library.services import START
from library.world import World
from safelight.infra import failpoints
from safelight.infra.queue.jobs import TOPIC, Done, Lost
from safelight.library.arrival import Arriving
from safelight.objects.store import Retake
from safelight.testing.waiting import until

OLD, NEW = b"old", b"new"
Prepare = Callable[[World], Awaitable[Arriving]]


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    world = make_world(short=True)
    await world.begin()
    return world


async def settle(world: World, name: str = "a.jpg", content: bytes = OLD) -> None:
    """An upload with which all is done."""
    await world.receive(name, content)
    await world.drain()
    world.tick(1)


async def change(world: World, statement: str) -> None:
    """By hand, as nothing of ours would; of the one name there is."""
    await world.db.execute(statement)


# Where it is open


async def new_name(world: World) -> Arriving:
    await settle(world, "b.jpg")
    return await ready(world)


async def plain_overwrite(world: World) -> Arriving:
    await settle(world)
    return await ready(world)


async def overwrite_of_what_cannot_be_classified(world: World) -> Arriving:
    await settle(world, content=b"broken")
    return await ready(world)


async def deleted_and_heard(world: World) -> Arriving:
    await settle(world)
    await world.delete("a.jpg")
    await world.drain()
    world.tick(1)
    return await ready(world)


async def deleted_and_forgotten(world: World) -> Arriving:
    await settle(world)
    await world.delete("a.jpg")
    await world.drain()
    await world.retain(40)
    return await ready(world)


async def deleted_elsewhere(world: World) -> Arriving:
    """Somebody else's tombstone outranks nothing of ours."""
    body = world.notice("a.jpg", None)
    await world.tell(body)
    await world.drain()
    return await ready(world)


OPEN: list[Prepare] = [
    new_name, plain_overwrite, overwrite_of_what_cannot_be_classified, deleted_and_heard,
    deleted_and_forgotten, deleted_elsewhere,
]  # fmt: skip


@pytest.mark.parametrize("prepare", OPEN, ids=lambda prepare: prepare.__name__)
async def test_it_is_taken(prepare: Prepare, world: World) -> None:
    """Its event is heard, the job ends, the run begins; nothing is left but that."""
    item = await prepare(world)
    assert await ask(world, item) == ["stored"]
    [job] = await world.claim_all()
    assert (job.kind.name, job.payload.run) == ("classification.run", 1)
    assert job.payload.idempotencyKey == item.image.idempotency_key
    await world.work(job)
    await Moves(world).end()
    unheard = "SELECT count(*) FROM object_events WHERE delivered_at IS NULL"
    assert await world.db.fetchval(unheard) == 0


# Where it is not


async def entry_without_object(world: World) -> Arriving:
    await settle(world)
    await change(world, "DELETE FROM objects")
    return await ready(world)


async def object_without_entry(world: World) -> Arriving:
    await settle(world)
    await change(world, "DELETE FROM uploads")
    return await ready(world)


async def entry_of_another_upload(world: World) -> Arriving:
    await settle(world)
    await change(world, "UPDATE uploads SET idempotency_key = 'another'")
    return await ready(world)


async def object_without_marker(world: World) -> Arriving:
    """As others may put one; it is nobody's who can be compared."""
    await settle(world)
    await change(world, "UPDATE objects SET metadata = '{}'")
    return await ready(world)


async def run_waits(world: World) -> Arriving:
    await world.receive("a.jpg", OLD)
    await world.work(await claimed(world, "ingest.offload"))
    world.tick(1)
    return await ready(world)


async def run_is_lost(world: World) -> Arriving:
    await world.receive("a.jpg", OLD)
    await world.work(await claimed(world, "ingest.offload"))
    await change(world, "DELETE FROM jobs")
    world.tick(1)
    return await ready(world)


async def delete_not_heard(world: World) -> Arriving:
    await settle(world)
    await world.delete("a.jpg")
    world.tick(1)
    return await ready(world)


async def delete_not_heard_of_no_entry(world: World) -> Arriving:
    """Another name's was, at the same time."""
    await settle(world)
    await settle(world, "b.jpg")
    await change(world, "DELETE FROM uploads WHERE name = 'a.jpg'")
    await world.delete("a.jpg")
    await world.delete("b.jpg")
    await world.work(await claimed(world, "objects.deliver", -1))
    world.tick(1)
    return await ready(world)


async def older_delete_heard(world: World) -> Arriving:
    await settle(world)
    await world.delete("a.jpg")
    await world.drain()
    await change(world, "UPDATE tombstones SET event_time = event_time - 1")
    world.tick(1)
    return await ready(world)


async def delete_heard_of_others(world: World) -> Arriving:
    await settle(world)
    await world.delete("a.jpg")
    await world.drain()
    await change(world, "UPDATE tombstones SET source = 'r2'")
    world.tick(1)
    return await ready(world)


async def entry_after_a_delete(world: World) -> Arriving:
    await settle(world)
    await world.db.execute("CREATE TABLE kept AS SELECT * FROM uploads")
    await world.delete("a.jpg")
    await world.drain()
    await change(world, "INSERT INTO uploads SELECT * FROM kept")
    await change(world, "DROP TABLE kept")
    world.tick(1)
    return await ready(world)


async def deleted_on_its_way(world: World) -> Arriving:
    image = await world.receive("a.jpg", NEW)
    offload = await claimed(world, "ingest.offload")
    await world.delete("a.jpg")
    await world.work(await claimed(world, "objects.deliver"))
    world.tick(1)
    return await landed(world, image, offload)


async def newer_is_the_object(world: World) -> Arriving:
    image = await world.receive("a.jpg", NEW)
    await world.receive("a.jpg", OLD)
    await world.work(await claimed(world, "ingest.offload", -1))
    await world.work(await claimed(world, "classification.run"))
    world.tick(1)
    return await landed(world, image)


async def within_one_moment(world: World) -> Arriving:
    await settle(world)
    world.tick(-1)
    return await ready(world)


async def clock_that_went_back(world: World) -> Arriving:
    await settle(world)
    await world.delete("a.jpg")
    await world.drain()
    world.tick(-3_600_000)
    return await ready(world)


async def claimed(world: World, kind: str, nth: int = 0) -> Any:
    job = await world.claim(nth, kind)
    assert job
    return job


CLOSED: list[Prepare] = [
    entry_without_object, object_without_entry, entry_of_another_upload, object_without_marker,
    run_waits, run_is_lost, delete_not_heard, delete_not_heard_of_no_entry, older_delete_heard,
    delete_heard_of_others, entry_after_a_delete, deleted_on_its_way, newer_is_the_object,
    within_one_moment, clock_that_went_back,
]  # fmt: skip


@pytest.mark.parametrize("prepare", CLOSED, ids=lambda prepare: prepare.__name__)
async def test_elsewhere_somebody_looks(prepare: Prepare, world: World) -> None:
    """Nothing was changed, and the general road ends well."""
    item = await prepare(world)
    before = await everything(world)
    assert await ask(world, item) == ["look"]
    assert await everything(world) == before
    assert await world.work(item.job) == Done(already=True)
    await Moves(world).end()


async def test_a_name_somebody_works_on_is_not_waited_for(world: World) -> None:
    await settle(world)
    item = await ready(world)
    before = await everything(world)
    async with world.db.transaction() as other:
        await other.execute("SELECT object_lock($1)", f"{world.organization}/a.jpg")
        async with asyncio.timeout(5):
            assert await ask(world, item) == ["look"]
    assert await everything(world) == before
    assert await ask(world, item) == ["stored"], "it is free now"
    await Moves(world).end()


@pytest.mark.parametrize("status", ["STORED", "FAILED", "UPLOADED"])
async def test_an_image_that_is_no_longer_on_its_way(world: World, status: str) -> None:
    item = await ready(world)
    await world.db.execute("UPDATE images SET status = $1 WHERE id = $2", status, item.image.id)
    before = await everything(world)
    assert await ask(world, item) == ["look"]
    assert await everything(world) == before
    assert await world.work(item.job) in (Done(), Done(already=True))
    assert await world.db.fetchval("SELECT count(*) FROM uploads") == 0


async def test_a_job_that_is_somebody_elses_by_now(world: World) -> None:
    """Its image is still on its way; whoever has the job brings it."""
    item = await ready(world)
    await world.end_leases()
    theirs = await claimed(world, "ingest.offload")
    before = await everything(world)
    with pytest.raises(asyncpg.PostgresError) as error:
        await ask(world, item)
    assert error.value.sqlstate == "SL002"
    assert not await arrive(world, item)
    assert await everything(world) == before
    assert await world.work(item.job) == Lost()
    assert await world.work(theirs) == Done(already=True)
    await Moves(world).end()


@pytest.mark.parametrize("seen", ["run", "job"])
async def test_a_marker_that_was_seen_before(world: World, seen: str) -> None:
    item = await ready(world)
    organization, marker = world.organization, item.image.idempotency_key
    statement = {
        "run": "INSERT INTO classification_runs (organization, name, idempotency_key, run, status, "
        "started_at, finished_at) VALUES ($1, $2, $3, 1, 'done', 1, 1)",
        "job": "SELECT job_enqueue('classification.run', $1, jsonb_build_object('name', $2::text, "
        "'idempotencyKey', $3::text, 'run', 1), classification_key($1, $2, $3))",
    }[seen]
    await world.db.execute(statement, organization, "a.jpg", marker)
    before = await everything(world)
    with pytest.raises(asyncpg.PostgresError):
        await ask(world, item)
    assert not await arrive(world, item)
    assert await everything(world) == before
    assert await world.work(item.job) == Done(already=True)
    await Moves(world).end()


async def arrive(world: World, item: Arriving) -> bool:
    return await world.arrival.arrive(item.image, item.landed, item.node, item.metadata, item.job)


# Many together


async def test_each_of_a_batch_has_its_own_end(world: World) -> None:
    """Two that take the road, one whose name is not settled, one of a name that was just taken."""
    await world.receive("busy.jpg", OLD)
    await world.work(await claimed(world, "ingest.offload"))
    world.tick(1)
    contents = {"a.jpg": b"1", "busy.jpg": b"2", "b.jpg": b"3"}
    items = [await ready(world, name, content) for name, content in contents.items()]
    items.append(await ready(world, "a.jpg", b"4"))
    answers = await world.arrival._send(world.organization, items)
    assert [one.taken for one in answers].count(True) == 2
    assert (answers[1].taken, answers[2].taken) == (False, True)
    assert answers[0].taken is not answers[3].taken, "one upload of a name in one statement"
    assert [one.job_id is not None for one in answers] == [one.taken for one in answers]
    for item, one in zip(items, answers, strict=True):
        if not one.taken:
            await world.work(item.job)
    await Moves(world).end()


async def test_a_batch_without_any_that_takes_the_road_tells_nothing(world: World) -> None:
    item = await run_waits(world)
    before = await everything(world)
    assert await ask(world, item, item) == ["look", "look"]
    assert await everything(world) == before


async def waiting(world: World, number: int) -> None:
    await until(lambda: len(world.arrival._batches._waiting.get(world.organization, ())) == number)


async def test_bytes_that_must_be_written_again_hold_up_nobody(world: World) -> None:
    """Files of a shard were removed since one of a batch looked: it looks again, by itself."""
    offloads = []
    for number in range(4):
        await world.receive(f"{number}.jpg", b"%d" % number)
        offloads.append(await claimed(world, "ingest.offload", -1))
    armed = failpoints.arm("library.arrive", "hold@1")
    tasks = [asyncio.create_task(world.work(offloads[0]))]
    await armed.passed()
    tasks += [asyncio.create_task(world.work(job)) for job in offloads[1:]]
    await waiting(world, 3)
    sent = world.arrival._batches._waiting[world.organization]
    culprit = sent[1][0].image.checksum
    await world.db.execute(
        "UPDATE blob_epochs SET epoch = epoch + 1 WHERE shard = left($1, 2)", culprit
    )
    failpoints.disarm("library.arrive")
    assert await asyncio.gather(*tasks) == [Done(already=True)] * 4
    kinds = await world.db.fetch("SELECT kind FROM jobs")
    assert [row["kind"] for row in kinds] == ["classification.run"] * 4, "all took the short road"
    await Moves(world).end()


async def test_alone_it_hears_that_its_bytes_must_be_written_again(world: World) -> None:
    item = await ready(world)
    await world.db.execute("UPDATE blob_epochs SET epoch = epoch + 1")
    with pytest.raises(Retake):
        await arrive(world, item)


async def test_two_processes_with_the_same_bytes(make_world: MakeWorld) -> None:
    """New names and names that change their bytes for each other's, in opposite orders."""
    one, two = make_world(short=True), make_world(short=True)
    await two.begin()
    two.story = await one.begin()
    contents = [b"%d" % number for number in range(8)]
    for turn in range(3):
        items: list[list[Arriving]] = [[], []]
        for number, content in enumerate(contents):
            for process, ready_ in enumerate(items):
                which = contents[number - turn] if process else content
                ready_.append(await ready(one, f"{process}-{number}.jpg", which))
        answers = await asyncio.gather(
            one.arrival._batches._send(one.organization, items[0]),
            two.arrival._batches._send(one.organization, items[1]),
        )
        assert all(arrived.taken for batch in answers for arrived in batch)
        await one.drain()
        one.tick(1)
        two.clock.ms = one.clock.ms
    await Moves(one).end()


# Whose run it is


class Few:
    """A worker's slots, of which there are so many."""

    def __init__(self, free: int) -> None:
        self.free = free

    def reserve(self, kind: str, organization: str) -> bool:
        assert kind == "classification.run"
        assert organization
        self.free -= 1
        return self.free >= 0

    def release(self, *_: str) -> None:
        self.free += 1


@pytest.mark.parametrize("free", [0, 1])
async def test_a_run_is_leased_where_there_is_room(world: World, free: int) -> None:
    """Otherwise it is announced."""
    adopted, heard = list[Any](), list[str]()
    item = await ready(world)
    world.bus.subscribe(TOPIC, heard.append)
    world.queue.employ(adopted.append, Few(free))
    assert await arrive(world, item)
    [row] = await world.db.fetch("SELECT * FROM jobs")
    if free:
        [job] = adopted
        assert (job.id, job.claim, job.attempt) == (row["id"], row["claim"], row["attempts"])
        assert (row["status"], row["owner"], heard) == ("running", "world", [])
        assert job.payload == world.handlers[job.kind.name].kind.payload(**row["payload"])
        assert await world.work(job) == Done(already=True)
    else:
        assert (row["status"], row["owner"], adopted) == ("queued", None, [])
        assert heard == ["classification.run"]
    await Moves(world).end()


async def test_nothing_is_kept_for_one_that_does_not_take_the_road(world: World) -> None:
    adopted, slots = list[Any](), Few(1)
    item = await run_waits(world)
    world.queue.employ(adopted.append, slots)
    assert not await arrive(world, item)
    failpoints.arm("library.arrive", "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await arrive(world, item)
    assert (adopted, slots.free) == ([], 1)


# As the general road


async def live(world: World) -> list[dict[str, list[dict[str, Any]]]]:
    """The cases in which the short road is open, one after the other, and what each leaves."""
    left = []

    async def upload(name: str, content: bytes) -> None:
        world.tick(5)
        await world.receive(name, content)
        await world.work(await claimed(world, "ingest.offload"))
        if not world.short:
            await world.work(await claimed(world, "objects.deliver"))
        left.append(await told(world))
        await world.work(await claimed(world, "classification.run"))
        left.append(await told(world))

    for name, content in (
        ("a.jpg", OLD), ("b é.jpg", NEW), ("a.jpg", NEW), ("a.jpg", b"broken"), ("a.jpg", b"more"),
    ):  # fmt: skip
        await upload(name, content)
    world.tick(5)
    await world.delete("a.jpg")
    await world.work(await claimed(world, "objects.deliver"))
    await upload("a.jpg", b"again")
    await Moves(world).end()
    return left


@pytest.mark.parametrize("bucket", [False, True], ids=["built-in", "bucket"])
async def test_either_road_leaves_the_same(make_world: MakeWorld, bucket: bool) -> None:
    """Every row of every table, quotas and history in its order; ids, and numbers that rise, aside."""
    lives, world = [], make_world(short=True, bucket=bucket)
    for short in (False, True):
        armed = failpoints.observe("library.arrive")
        world.short, world.clock.ms = short, START
        world.offload._arrive = world.arrival.arrive if short else None
        await world.begin()
        await world.db.execute("WITH theirs AS (DELETE FROM objects) DELETE FROM blobs")
        lives.append(await live(world))
        assert armed.passes == (6 if short else 0)
    general, short_ = lives
    for step, (before, after) in enumerate(zip(general, short_, strict=True)):
        for table in before:
            assert after[table] == before[table], (step, table)


async def test_an_entry_is_ordered_by_its_event(world: World) -> None:
    """The one of them that has no twin on the general road to be compared with."""
    await settle(world)
    item = await ready(world)
    assert await ask(world, item) == ["stored"]
    entry = await world.db.fetchrow("SELECT sequencer, event_time, source FROM uploads")
    event = await world.db.fetchrow(
        "SELECT sequencer, event_time, source, id FROM object_events ORDER BY id DESC LIMIT 1"
    )
    assert entry
    assert event
    assert tuple(entry) == tuple(event)[:3]
    assert int(event["sequencer"], 16) == event["id"]


# Buckets


async def test_a_telling_bucket_never_takes_it(make_world: MakeWorld) -> None:
    """Its index does not know what it holds, and its own events are to come."""
    world = make_world(telling=True, short=True)
    await world.begin()
    armed = failpoints.observe("library.arrive")
    moves = Moves(world)
    await moves.put("a.jpg", OLD)
    assert await world.db.fetchval("SELECT count(*) FROM uploads") == 0
    await moves.put("a.jpg", NEW, 1000)
    await moves.end()
    assert armed.passes == 0


async def test_a_plain_bucket_does_and_its_ticket_ends(make_world: MakeWorld) -> None:
    world = make_world(bucket=True, short=True)
    await world.begin()
    armed, recorded = failpoints.observe("library.arrive"), failpoints.observe("ingest.store")
    moves = Moves(world)
    await moves.put("a.jpg", OLD, 1, 0)
    asked = recorded.passes
    await moves.put("a.jpg", NEW, 1, 0)
    assert (armed.passes, asked, recorded.passes) == (2, 1, 2), "only whether it is beaten"
    await moves.end()
    assert await world.db.fetchval("SELECT count(*) FROM object_outbox") == 0
    nodes = await world.db.fetch("SELECT node FROM images")
    assert [row["node"] for row in nodes] == [world.directory.node] * 2, "to be put back from"
