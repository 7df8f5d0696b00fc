"""Two at once where it matters who waits for whom, and short histories in every order."""

import asyncio
from itertools import permutations

import pytest

from holding import until_waiting
from library.conftest import MakeWorld
from library.moves import Moves
from library.truth import check_step
from safelight.infra.db import Database
from safelight.infra.queue.jobs import Done
from safelight.objects.store import ObjectInfo


async def test_a_delete_and_a_result_do_not_wait_for_each_other(
    make_world: MakeWorld, database: Database
) -> None:
    """The result comes first, the delete while it is being written: both simply happen."""
    world = make_world()
    await world.begin()
    moves = Moves(world)
    await moves.put("a.jpg", b"one", 0, 0)
    classifying = await world.claim()
    assert classifying
    thought = await world.think(classifying)
    await world.delete("a.jpg")
    deleting = await world.claim()
    assert thought
    assert deleting
    async with database.transaction() as other:
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", classifying.id)
        concluding = asyncio.create_task(world.conclude(thought, "answer"))
        await until_waiting(database, 1)
        removing = asyncio.create_task(world.work(deleting))
        await until_waiting(database, 2)
    assert await concluding == await removing == Done(already=True)
    await check_step(world, "a.jpg", alone=False)
    await moves.end()


async def test_an_event_waits_for_whoever_changes_its_object(
    make_world: MakeWorld, database: Database
) -> None:
    """It decides from what is there once it has the name's lock, not from what was there before."""
    world = make_world()
    await world.begin()
    await Moves(world).put("a.jpg", b"one")
    delivering = await world.claim()
    assert delivering
    key = f"{world.organization}/a.jpg"
    async with database.transaction() as other:
        await other.execute("SELECT object_lock($1)", key)
        working = asyncio.create_task(world.work(delivering))
        await until_waiting(database, 1)
        await other.execute("UPDATE objects SET present = false WHERE key = $1", key)
    assert await working == Done(already=True)
    assert await database.fetchval("SELECT count(*) FROM uploads") == 0


async def test_a_delete_waits_for_an_upload_that_is_just_being_stored(
    make_world: MakeWorld, database: Database
) -> None:
    """What is stored by then is the object it deletes, and not on its way any more."""
    world = make_world()
    await world.begin()
    image = await world.receive("a.jpg", b"one")
    async with database.transaction() as other:
        await other.execute("SELECT object_lock($1)", f"{world.organization}/a.jpg")
        deleting = asyncio.create_task(world.delete("a.jpg"))
        await until_waiting(database, 1)
        await other.execute("UPDATE images SET status = 'STORED' WHERE id = $1", image.id)
    assert await deleting
    assert await database.fetchval("SELECT count(*) FROM delete_intents") == 0


@pytest.mark.parametrize("waiting", [(0, 1, 2, 0, 1, 2), (1, 2, 0, 1, 2)], ids=len)
async def test_every_order_of_upload_delete_upload(
    make_world: MakeWorld, waiting: tuple[int, ...]
) -> None:
    """Each event is delivered twice, in all ninety orders there are. On the short road the first
    was heard as it happened; the last upload finds a delete that was not, and takes the other."""
    world = make_world(short=len(waiting) == 5)
    for order in sorted(set(permutations(waiting))):
        await world.begin()
        moves = Moves(world)
        await moves.put("a.jpg", b"one")
        await moves.delete("a.jpg", 1)
        await moves.put("a.jpg", b"two", 1)
        for number in range(3):
            await world.again(number)
        left = list(waiting)
        for which in order:
            await moves.deliver(left.index(which))
            left.remove(which)
        await moves.end()


async def test_a_telling_bucket_is_asked_with_no_transaction_open(
    make_world: MakeWorld, database: Database
) -> None:
    """It may take its time. What it said is asked for again when others changed the entry since."""
    world = make_world(telling=True)
    await world.begin()
    moves = Moves(world)
    await moves.put("a.jpg", b"one")
    await world.send_the_rest()
    first, head = await world.claim(), world.store.head
    await moves.put("a.jpg", b"two")
    await world.send_the_rest()
    second = await world.claim()
    assert first
    assert second
    asked: list[str] = []

    async def slow_head(key: str) -> ObjectInfo:
        info = await head(key)
        asked.append(info.etag)
        if len(asked) == 1:
            open_ones = await database.fetchval(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
            )
            assert open_ones == 0
            await world.work(second)
        return info

    world.store.head = slow_head  # type: ignore[method-assign]
    assert await world.work(first) == Done(already=True)
    assert len(asked) == 3, "the second delivery's, and the first's again"
    await moves.end()
