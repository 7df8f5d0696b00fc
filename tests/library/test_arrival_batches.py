"""Uploads that arrive together, whose runs they start, and answers that are lost."""

import asyncio
from typing import Any

import asyncpg
import pytest

from library.arriving import arrive, ask, claimed, everything, ready, run_waits, waiting
from library.conftest import MakeWorld
from library.moves import Moves
from library.world import World
from safelight.infra import failpoints
from safelight.infra.queue.jobs import TOPIC, Done, PutBack
from safelight.library import repo
from safelight.library.arrival import Arriving
from safelight.objects.store import Retake

OLD = b"old"


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    world = make_world(short=True)
    await world.begin()
    return world


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


async def test_an_answer_that_was_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows that it happened. Whoever comes next finds it done, and does nothing twice."""
    done = repo.arrive

    async def arrive_and_lose(*parts: Any) -> None:
        await done(*parts)
        raise asyncpg.ConnectionDoesNotExistError("connection was closed")

    offloads = []
    for name in ("a.jpg", "b.jpg"):
        await world.receive(name, name.encode())
        offloads.append(await claimed(world, "ingest.offload", -1))
    monkeypatch.setattr(repo, "arrive", arrive_and_lose)
    outcomes = await asyncio.gather(*(world.work(job) for job in offloads))
    assert all(isinstance(outcome, PutBack) and outcome.away for outcome in outcomes)
    monkeypatch.undo()
    for job in offloads:  # as its next holder would, if there were one
        assert await world.work(job) == Done()
    await Moves(world).end()
