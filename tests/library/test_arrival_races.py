"""Somebody uploads or deletes the same name at each point of the short road."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from library.arriving import claimed, waiting
from library.conftest import MakeWorld
from library.moves import Moves
from library.world import World
from safelight.infra import failpoints
from safelight.infra.queue.jobs import Done

# Where the first upload stands still while the other comes: on its way to the store, with its bytes
# there and their row to come, right before the statement, before its run, in the middle of it, and
# right before its result.
POINTS = [
    "ingest.put", "objects.link", "objects.record_put", "library.arrive", "before the run",
    "the run", "classification.apply",
]  # fmt: skip
Other = Callable[[World], Awaitable[None]]


async def overwrite(world: World) -> None:
    """All the way, before the first goes on."""
    await world.receive("a.jpg", b"two")
    assert await world.work(await claimed(world, "ingest.offload", -1)) == Done(already=True)
    while job := await world.claim(kind="objects.deliver"):
        await world.work(job)
    world.tick(1)


async def overwrite_and_classify(world: World) -> None:
    await overwrite(world)
    while job := await world.claim(kind="classification.run"):
        await world.work(job)


async def delete(world: World) -> None:
    assert await world.delete("a.jpg")


async def delete_and_hear(world: World) -> None:
    await delete(world)
    while job := await world.claim(kind="objects.deliver"):
        await world.work(job)
    world.tick(1)


async def delete_and_upload(world: World) -> None:
    await delete_and_hear(world)
    await overwrite_and_classify(world)


OTHERS: list[Other] = [
    overwrite, overwrite_and_classify, delete, delete_and_hear, delete_and_upload,
]  # fmt: skip


async def go_until(world: World, point: str) -> Callable[[], Awaitable[Any]]:
    """An upload that stands still there; what lets it go on."""
    await world.receive("a.jpg", b"one")
    job = await claimed(world, "ingest.offload")
    if point.endswith("the run") or point.startswith("classification."):
        await world.work(job)
        job = await claimed(world, "classification.run")
    if point == "before the run":
        return partial(world.work, job)
    if point == "the run":
        thought = await world.think(job)
        assert thought
        return partial(world.conclude, thought, "answer")
    armed = failpoints.arm(point, "hold@1")
    task = asyncio.create_task(world.work(job))
    await armed.passed()

    async def go_on() -> None:
        failpoints.disarm(point)
        await task

    return go_on


@pytest.mark.parametrize("before", ["nothing", "an entry", "a delete"])
async def test_somebody_comes_at_each_point(make_world: MakeWorld, before: str) -> None:
    """From another process. Whoever is newer wins, what was deleted stays deleted, each is classified
    once at most; and whoever comes need not wait for who stands still."""
    world, elsewhere = make_world(short=True), make_world(short=True)
    for point in POINTS:
        for other in OTHERS:
            await elsewhere.begin()
            elsewhere.story = await world.begin()
            await prepare(world, before)
            go_on = await go_until(world, point)
            elsewhere.clock.ms = world.clock.ms
            async with asyncio.timeout(20):
                await other(elsewhere)
            world.clock.ms = elsewhere.clock.ms
            await go_on()
            await Moves(world).end()


async def prepare(world: World, before: str) -> None:
    if before != "nothing":
        await world.receive("a.jpg", b"before")
        await world.drain()
        world.tick(1)
    if before == "a delete":
        await world.delete("a.jpg")
        await world.drain()
        world.tick(1)


async def test_a_delete_while_its_batch_waits(make_world: MakeWorld) -> None:
    """The second of a batch is deleted before the batch is sent: only it looks, and is beaten."""
    world = make_world(short=True)
    await world.begin()
    offloads = []
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        await world.receive(name, name.encode())
        offloads.append(await claimed(world, "ingest.offload", -1))
    armed = failpoints.arm("library.arrive", "hold@1")
    tasks = [asyncio.create_task(world.work(offloads[0]))]
    await armed.passed()
    tasks += [asyncio.create_task(world.work(job)) for job in offloads[1:]]
    await waiting(world, 2)
    assert await world.delete("b.jpg")
    world.tick(1)
    failpoints.disarm()
    assert await asyncio.gather(*tasks) == [Done(already=True)] * 3
    names = await world.db.fetch("SELECT name FROM uploads ORDER BY name")
    assert [row["name"] for row in names] == ["a.jpg", "c.jpg"]
    await Moves(world).end()


async def test_two_processes_bring_one_name(make_world: MakeWorld) -> None:
    """Both statements at once: one has the name's lock, the other looks, and the newer wins."""
    one, two = make_world(short=True), make_world(short=True)
    await two.begin()
    for turn in range(6):
        two.story = await one.begin()
        offloads = []
        for content in (b"one", b"two"):
            await one.receive("a.jpg", content)
            offloads.append(await claimed(one, "ingest.offload", -1))
        order = offloads if turn % 2 else offloads[::-1]
        await asyncio.gather(one.work(order[0]), two.work(order[1]))
        await Moves(one).end()
