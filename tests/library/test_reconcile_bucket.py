"""The same for a bucket whose own notifications are the events: some never came, some come later."""

from typing import Any

import obstore
import pytest

from library.conftest import MakeWorld
from library.reconciling import (
    ONE,
    TWO,
    entry,
    stored,
    story,
    world_of,
)
from library.scripted import label_of
from library.truth import check_end
from library.world import World
from safelight.objects.store import StoreUnavailable


async def test_a_notification_that_never_came(make_world: MakeWorld) -> None:
    world = await world_of(make_world, telling=True)
    await stored(world, "a.jpg")
    world.story.notices.clear()
    assert await world.reconcile.run() == 1
    await world.drain()
    found = await entry(world, "a.jpg")
    assert found
    assert found["classification_label"] == label_of(ONE)
    assert await world.reconcile.run() == 0


async def _upload_delete_upload(world: World) -> None:
    """All within one second, which is all that a bucket's own date of the last one says."""
    for content in (ONE, TWO):
        world.tick(300)
        await stored(world, "a.jpg", content)
        world.tick(100)
        if content is ONE:
            await world.delete("a.jpg")


@pytest.mark.parametrize("dialect", ["r2", "seconds", "s3"])
async def test_notifications_that_come_after_the_look(make_world: MakeWorld, dialect: str) -> None:
    """What the bucket holds was told again: the delete before it does not remove it, and nothing is
    classified once more."""
    world = await world_of(make_world, telling=True)
    world.story.dialect = dialect
    await _upload_delete_upload(world)
    assert await world.look() == 1
    job = await world.claim(0, "objects.deliver")
    assert job
    await world.work(job)
    await world.drain()
    kinds = [kind for kind, _ in await story(world, "a.jpg")]
    assert "upload_deleted" not in kinds
    assert kinds.count("classification_updated") == 1
    await check_end(world)
    await world.delete("a.jpg")
    await world.drain()
    assert await entry(world, "a.jpg") is None


async def test_a_replacement_that_is_young(make_world: MakeWorld) -> None:
    """The entry is old, what replaced it is not: its notification has time to come."""
    world = await world_of(make_world, telling=True)
    await stored(world, "a.jpg")
    await world.drain()
    world.reconcile._young_ms = 300_000
    world.tick(86_400_000)
    await stored(world, "a.jpg", TWO)
    for step, mended in ((0, 0), (299_999, 0), (2_000, 1)):
        world.tick(step)
        assert await world.reconcile.run() == mended


async def test_an_end_that_was_never_told(make_world: MakeWorld) -> None:
    world = await world_of(make_world, telling=True)
    await stored(world, "a.jpg")
    await stored(world, "b.jpg")
    await world.drain()
    await world.expire("a.jpg")
    world.story.notices.clear()
    assert await world.reconcile.run() == 1
    await world.drain()
    assert await entry(world, "a.jpg") is None
    assert await entry(world, "b.jpg")
    assert await world.reconcile.run() == 0
    # Something newer under the name is not beaten by what we told.
    world.tick(1)
    await stored(world, "a.jpg", TWO)
    await world.drain()
    assert (await entry(world, "a.jpg") or {})["classification_label"] == label_of(TWO)


async def test_nothing_is_gone_because_nobody_answers(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty listing is no proof, and a bucket that is away proves nothing."""
    world = await world_of(make_world, telling=True)
    await stored(world, "a.jpg")
    await world.drain()

    async def nothing(*_: Any, **__: Any) -> list[Any]:
        return []

    async def away(_: str) -> Any:
        raise StoreUnavailable

    monkeypatch.setattr(world.store, "list", nothing)
    assert await world.reconcile.run() == 0
    monkeypatch.setattr(world.store, "head", away)
    with pytest.raises(StoreUnavailable):
        await world.reconcile.run()
    assert await entry(world, "a.jpg")
    assert not await world.db.fetchval("SELECT count(*) FROM jobs")


async def test_what_others_keep_in_the_bucket(make_world: MakeWorld) -> None:
    world = await world_of(make_world, telling=True)
    for key in ("stranger/a.jpg", "artifacts/x", "loose", f"{world.organization}/plain.jpg"):
        await obstore.put_async(world.bucket, key, b"x")
    assert await world.reconcile.run() == 0
    assert not await world.db.fetchval("SELECT count(*) FROM object_events")
