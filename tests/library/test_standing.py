"""What an entry says of its run is what is so: a worker has it, it waits for a time, or it is over."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from library.conftest import MakeWorld
from library.reconciling import stored, world_of
from library.scripted import BROKEN
from library.world import World
from safelight.infra import failpoints
from safelight.library import repo
from safelight.library.entry import ENTRY_STATUSES, Entry, LibraryFilter, RunStatus
from safelight.library.lists import repo as lists
from safelight.library.routes import show

RUN = "classification.run"
Reach = Callable[[World], Awaitable[object]]


async def entered(world: World, content: bytes = b"one") -> None:
    await stored(world, "a.jpg", content)
    job = await world.claim(-1, "objects.deliver")
    assert job
    await world.work(job)


async def queued(world: World) -> None:
    await entered(world)


async def running(world: World) -> None:
    await entered(world)
    job = await world.claim(kind=RUN)
    assert job
    assert await world.think(job)


async def tried(world: World) -> None:
    await entered(world)
    job = await world.claim(kind=RUN)
    assert job
    world.classifier.mood = "fail"
    await world.work(job)
    world.classifier.mood = "answer"


async def tried_again(world: World) -> None:
    await tried(world)
    job = await world.claim(kind=RUN)
    assert job
    assert await world.think(job)


async def away(world: World) -> None:
    await entered(world)
    for _ in range(3):
        job = await world.claim(kind=RUN)
        assert job
        world.classifier.mood = "away"
        await world.work(job)
        world.classifier.mood = "answer"


async def buried(world: World) -> None:
    await entered(world)
    world.classifier.mood = "fail"
    await world.drain()
    world.classifier.mood = "answer"


async def redriven(world: World) -> None:
    await buried(world)
    [letter] = await world.dead_letters()
    assert await world.redrive(letter)


async def redriven_and_running(world: World) -> None:
    await redriven(world)
    job = await world.claim(kind=RUN)
    assert job
    assert await world.think(job)


async def redriven_and_tried(world: World) -> None:
    await redriven(world)
    job = await world.claim(kind=RUN)
    assert job
    world.classifier.mood = "away"
    await world.work(job)
    world.classifier.mood = "answer"


async def done(world: World) -> None:
    await entered(world)
    await world.drain()


async def damaged(world: World) -> None:
    await entered(world, BROKEN)
    await world.drain()


async def lost(world: World) -> None:
    """No job works for it; looking at everything will start one."""
    await entered(world)
    await world.db.execute("DELETE FROM jobs WHERE kind = $1", RUN)


async def older(world: World) -> None:
    """As the version before left it after a failed attempt."""
    await tried(world)
    await world.db.execute("UPDATE uploads SET classification_status = 'running'")
    await world.db.execute("UPDATE classification_runs SET status = 'running'")


STATES: list[tuple[Reach, RunStatus, bool, str | None]] = [
    (queued, RunStatus.PENDING, False, None),
    (running, RunStatus.RUNNING, False, None),
    (tried, RunStatus.PENDING, True, "The model is out of order."),
    (tried_again, RunStatus.RUNNING, False, None),
    (away, RunStatus.PENDING, True, "The model is on holiday."),
    (done, RunStatus.DONE, False, None),
    (damaged, RunStatus.FAILED, False, "The bytes are not an image that can be read."),
    (buried, RunStatus.FAILED, False, "The model is out of order."),
    (redriven, RunStatus.PENDING, False, None),
    (redriven_and_running, RunStatus.RUNNING, False, None),
    (redriven_and_tried, RunStatus.PENDING, True, "The model is on holiday."),
    (lost, RunStatus.PENDING, False, None),
    (older, RunStatus.PENDING, True, "The model is out of order."),
]


async def seen(world: World) -> Entry:
    found = await repo.find(world.db, world.organization, "a.jpg")
    assert found
    return found


@pytest.mark.parametrize(("reach", "status", "waits", "words"), STATES)
async def test_an_entry_says_how_its_run_stands(
    make_world: MakeWorld, reach: Reach, status: RunStatus, waits: bool, words: str | None
) -> None:
    world = await world_of(make_world)
    await reach(world)
    shown: dict[str, Any] = show(await seen(world))
    assert shown["classificationStatus"] == status
    assert ("nextAttemptAt" in shown) == waits
    said = shown.get("failure" if status is RunStatus.FAILED else "lastError")
    assert (said and said["message"]) == words
    for other in ENTRY_STATUSES:
        page = await lists.page(world.db, world.organization, LibraryFilter(status=other), None, 9)
        assert [entry.name for entry in page] == (["a.jpg"] if other is status else [])
        assert all(show(entry) == shown for entry in page)


async def test_a_redrive_that_dies_has_changed_nothing(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await buried(world)
    before = show(await seen(world))
    [letter] = await world.dead_letters()
    armed = failpoints.arm("classification.try_again", "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await world.redrive(letter)
    assert armed.passes == 1
    assert show(await seen(world)) == before
    assert await world.dead_letters() == [letter]
    assert await world.redrive(letter)


async def test_a_redrive_for_nothing_does_not_touch_the_entry(make_world: MakeWorld) -> None:
    """The name has another image by now."""
    world = await world_of(make_world)
    await buried(world)
    [letter] = await world.dead_letters()
    await stored(world, "a.jpg", b"two")
    await world.drain()
    before = show(await seen(world))
    assert await world.redrive(letter)
    assert show(await seen(world)) == before
    await world.drain()
    assert show(await seen(world)) == before


async def test_when_it_is_tried_again(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await tried(world)
    at = "SELECT (extract(epoch FROM run_at) * 1000)::bigint FROM jobs WHERE kind = $1"
    assert (await seen(world)).next_attempt_at == await world.db.fetchval(at, RUN)


async def test_a_run_of_another_upload_is_not_the_entrys(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await running(world)
    await world.db.execute("UPDATE jobs SET key = key || 'x', payload = payload || $1",
                           {"idempotencyKey": "another"})  # fmt: skip
    assert (await seen(world)).classification_status is RunStatus.PENDING
    found = LibraryFilter(status=RunStatus.PENDING)
    assert len(await lists.page(world.db, world.organization, found, None, 9)) == 1
    elsewhere = "SELECT count(*) FROM classification_at_work($1)"
    assert await world.db.fetchval(elsewhere, world.organization) == 1
    assert await world.db.fetchval(elsewhere, "another") == 0


async def test_the_best_labels_are_kept_with_the_run(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await done(world)
    found = await seen(world)
    assert [one["label"] for one in found.labels] == [found.classification_label, "OTHER"]
    assert "labels" not in show(found)


async def test_a_run_of_the_version_before_has_no_other_labels(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await done(world)
    await world.db.execute("UPDATE classification_runs SET labels = NULL")
    assert (await seen(world)).labels == ()
