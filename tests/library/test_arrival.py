"""The short road is open where a name is as expected, and ends as the general one would."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from library.arriving import arrive, ask, claimed, everything, landed, ready, run_waits, settle
from library.conftest import MakeWorld
from library.moves import Moves
from library.world import World
from safelight.infra.queue.jobs import Done, Lost
from safelight.library.arrival import Arriving

OLD, NEW = b"old", b"new"
Prepare = Callable[[World], Awaitable[Arriving]]


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    world = make_world(short=True)
    await world.begin()
    return world


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
