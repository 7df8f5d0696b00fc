"""A run looks at the bytes of its image and at no others, wherever it has them from."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from library.conftest import MakeWorld
from library.reconciling import entry, stored, story, world_of
from library.scripted import drawing_of, label_of
from library.test_damaged import RUN, tried
from library.truth import check_end
from library.world import World
from safelight.infra.queue.jobs import Dead, Done, PutBack
from safelight.objects.local import LocalStore

NAME = "a.jpg"


async def ready(make_world: MakeWorld, content: bytes = b"one") -> World:
    """One image whose run waits, and of which this process remembers where it lies."""
    world = await world_of(make_world)
    await stored(world, NAME, content)
    job = await world.claim(kind="objects.deliver")
    assert job
    await world.work(job)
    remember(world, content)
    return world


def remember(world: World, content: bytes, *, size: int | None = None) -> None:
    digest = drawing_of(content).digest or ""
    marker = world.story.images[-1].idempotency_key
    length = len(content) if size is None else size
    world.originals.remember(world.organization, NAME, marker, digest, length)


def file_of(world: World, content: bytes) -> Path:
    assert isinstance(world.store, LocalStore)
    return world.store._blobs.path(drawing_of(content).digest or "")


def rot(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


async def label(world: World) -> Any:
    return (await entry(world, NAME) or {})["classification_label"]


async def states(world: World) -> list[str]:
    rows = await world.db.fetch("SELECT state FROM blobs ORDER BY state")
    return [row["state"] for row in rows]


async def test_what_was_just_stored_is_not_looked_up(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await ready(make_world)
    monkeypatch.setattr(world.store, "get", lambda *_: pytest.fail("the index was asked"))
    assert await tried(world, "answer") == Done(already=True)
    assert await label(world) == label_of(b"one")
    await check_end(world)


async def test_what_is_remembered_is_used_once(make_world: MakeWorld) -> None:
    """A retry asks the index, which knows better if something was wrong with it."""
    world = await ready(make_world)
    assert isinstance(await tried(world, "fail"), PutBack)
    assert len(world.originals._fresh) == 0
    await world.drain()
    await check_end(world)


@pytest.mark.parametrize("trouble", ["gone", "size"])
async def test_what_is_remembered_wrongly_is_looked_up(make_world: MakeWorld, trouble: str) -> None:
    world = await ready(make_world)
    if trouble == "size":
        remember(world, b"one", size=7)
    else:
        world.originals.remember(
            world.organization, NAME, world.story.images[-1].idempotency_key, "ab" * 32, 3
        )
    assert await tried(world, "answer") == Done(already=True)
    assert await label(world) == label_of(b"one")
    assert await states(world) == ["live"]


async def test_the_memory_has_an_end(make_world: MakeWorld) -> None:
    world = await ready(make_world)
    for number in range(1000):
        world.originals.remember("org", str(number), "m", "ab" * 32, 1)
    assert len(world.originals._fresh) == 1000
    await world.drain()
    await check_end(world)


@pytest.mark.parametrize("remembered", [True, False])
async def test_other_bytes_get_no_label(make_world: MakeWorld, remembered: bool) -> None:
    """They would be somebody else's, or nobody's. The blob is damaged, as scrubbing says it, and
    the image's own run ends where a person sees it."""
    world = await ready(make_world)
    rot(file_of(world, b"one"), b"two")
    if not remembered:
        world.originals._fresh.clear()
    assert isinstance(await tried(world, "answer"), PutBack)
    assert await label(world) is None
    assert await states(world) == ["damaged"]
    told = [kind for kind, _ in await story(world, NAME)]
    assert told.count("original_damaged") == 1
    outcomes = [await tried(world, "answer") for _ in range(3)]
    assert isinstance(outcomes[-1], Dead)
    found = await entry(world, NAME)
    assert found
    was = hashlib.sha256(b"one").hexdigest()
    assert (found["classification_status"], found["checksum"], found["drawn"]) == ("failed", was, 0)
    assert await world.db.fetchval("SELECT count(*) FROM thumbnails") == 0
    assert await world.db.fetchval("SELECT error ->> 'code' FROM jobs") == "DAMAGED"


async def test_bytes_that_heal_are_labelled(make_world: MakeWorld) -> None:
    world = await ready(make_world)
    path = file_of(world, b"one")
    rot(path, b"two")
    await tried(world, "answer")
    rot(path, b"one")
    await world.drain()
    assert await label(world) == label_of(b"one")


async def test_a_file_that_is_gone_is_damage(make_world: MakeWorld) -> None:
    world = await ready(make_world)
    file_of(world, b"one").unlink()
    assert isinstance(await tried(world, "answer"), PutBack)
    assert await states(world) == ["damaged"]


async def test_an_entry_that_is_known_to_be_of_other_bytes_takes_no_label(
    make_world: MakeWorld,
) -> None:
    """As in a bucket, where nobody but the entry knows what the bytes were."""
    world = await ready(make_world)
    await world.db.execute("UPDATE uploads SET checksum = $1", "cd" * 32)
    assert isinstance(await tried(world, "answer"), PutBack)
    assert await label(world) is None
    assert await world.db.fetchval("SELECT count(*) FROM jobs WHERE kind = $1", RUN) == 1
    assert await world.db.fetchval("SELECT count(*) FROM thumbnails") == 0


@pytest.mark.parametrize("change", ["overwrite", "delete"])
async def test_a_change_between_result_and_write_leaves_nothing_of_the_old(
    make_world: MakeWorld, change: str
) -> None:
    world = await ready(make_world)
    await world.drain()
    await stored(world, NAME, b"two")
    job = await world.claim(kind="objects.deliver")
    assert job
    await world.work(job)
    assert await world.db.fetchval("SELECT count(*) FROM thumbnails") == 0
    run = await world.claim(kind=RUN)
    assert run
    thought = await world.think(run)
    assert thought
    if change == "overwrite":
        await stored(world, NAME, b"three")
    else:
        await world.delete(NAME)
    delivery = await world.claim(kind="objects.deliver")
    assert delivery
    await world.work(delivery)
    await world.conclude(thought, "answer")
    await world.drain()
    await check_end(world)
