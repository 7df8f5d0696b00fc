"""Either road leaves the same; and which buckets take the short one."""

from typing import Any

import pytest

from library.arriving import ask, claimed, ready, settle, told
from library.conftest import MakeWorld
from library.moves import Moves
from library.services import START
from library.world import World
from safelight.infra import failpoints

OLD, NEW = b"old", b"new"


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    world = make_world(short=True)
    await world.begin()
    return world


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
