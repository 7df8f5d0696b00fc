"""A bucket that is ours alone to write to, and what others did in it all the same. The schedule
says so and changes nothing; a person has it followed."""

from typing import Any

import obstore
import pytest

from library.conftest import MakeWorld
from library.reconciling import ONE, TWO, entry, reconciled, stored, story, world_of
from library.scripted import label_of
from library.world import World
from safelight.infra import failpoints
from safelight.library.reconcile.comparison import Comparison
from safelight.library.reconcile.mend import Difference
from safelight.objects.store import StoreUnavailable


async def begin(make_world: MakeWorld, *names: str) -> World:
    world = await world_of(make_world, bucket=True)
    for name in names:
        await stored(world, name)
    await world.drain()
    return world


def key(world: World, name: str) -> str:
    return f"{world.organization}/{name}"


async def compared(world: World, *, repair: bool = False) -> Comparison:
    walk = world.reconcile.compare(world.organization, repair=repair, afresh=True)
    last = [report async for report in walk][-1]
    assert last.complete
    return last


def counts(report: Comparison) -> dict[Difference, tuple[int, int]]:
    return {kind: (found.count, found.repaired) for kind, found in report.found.items()}


async def used(world: World) -> int:
    """Bytes that the organization is charged for, since the last look."""
    total: int = await world.db.fetchval(
        "SELECT coalesce(sum(bytes), 0) FROM quota_changes WHERE organization = $1",
        world.organization,
    )
    return total


async def copy_aside(world: World, name: str) -> Any:
    """Bytes and metadata, as a backup has them."""
    found = await obstore.get_async(world.bucket, key(world, name))
    return bytes(await found.bytes_async()), dict(found.attributes)


async def bring_back(world: World, name: str, kept: Any) -> None:
    content, attributes = kept
    await obstore.put_async(world.bucket, key(world, name), content, attributes=attributes)


async def test_all_agree(make_world: MakeWorld) -> None:
    world = await begin(make_world, "a.jpg", "ä.jpg")
    report = await compared(world)
    assert (report.agreed, report.compared, report.found) == (True, 2, {})


async def test_an_object_that_somebody_removed(make_world: MakeWorld) -> None:
    world = await begin(make_world, "a.jpg", "b.jpg")
    await obstore.delete_async(world.bucket, key(world, "a.jpg"))
    assert await world.reconcile.run() == 0
    assert await entry(world, "a.jpg"), "the schedule completes nobody's mistake"
    assert await world.reconcile.left() == {"missingInBucket": 1}
    looked = await compared(world)
    assert counts(looked) == {Difference.GONE: (1, 0)}
    assert not looked.agreed
    assert not await world.db.fetchval("SELECT count(*) FROM jobs")
    before = await used(world)
    assert counts(await compared(world, repair=True)) == {Difference.GONE: (1, 1)}
    assert await used(world) - before == -len(ONE)
    await world.drain()
    assert await entry(world, "a.jpg") is None
    assert await entry(world, "b.jpg")
    assert "removed this image from the bucket" in str(await reconciled(world, "a.jpg"))
    assert ("upload_deleted", None) in await story(world, "a.jpg")
    await world.reconcile.run()
    assert await world.reconcile.left() == {}
    assert (await compared(world)).agreed
    await stored(world, "a.jpg", TWO)
    await world.drain()
    assert (await entry(world, "a.jpg") or {})["classification_label"] == label_of(TWO)


async def test_an_object_that_somebody_brought_back(make_world: MakeWorld) -> None:
    """As from a backup: a name that was deleted here comes back when a person asks, and counts."""
    world = await begin(make_world, "a.jpg")
    kept = await copy_aside(world, "a.jpg")
    await world.delete("a.jpg")
    await world.drain()
    await bring_back(world, "a.jpg", kept)
    assert await world.reconcile.run() == 0
    assert await entry(world, "a.jpg") is None
    before = await used(world)
    assert counts(await compared(world, repair=True)) == {Difference.UNKNOWN: (1, 1)}
    assert await used(world) - before == len(ONE)
    await world.drain()
    assert (await entry(world, "a.jpg") or {})["classification_label"] == label_of(ONE)
    assert (await compared(world)).agreed


async def test_an_object_that_somebody_exchanged(make_world: MakeWorld) -> None:
    world = await begin(make_world, "a.jpg", "b.jpg")
    await stored(world, "c.jpg", b"three bytes")
    await world.drain()
    await bring_back(world, "a.jpg", await copy_aside(world, "c.jpg"))
    await obstore.put_async(world.bucket, key(world, "b.jpg"), b"not an upload")
    before = await used(world)
    report = await compared(world, repair=True)
    assert counts(report) == {Difference.CHANGED: (1, 1), Difference.STRANGE: (1, 0)}
    assert await used(world) - before == len(b"three bytes") - len(ONE)
    await world.drain()
    found = await entry(world, "a.jpg")
    assert found
    assert found["classification_label"] == label_of(b"three bytes")
    assert counts(await compared(world)) == {Difference.STRANGE: (1, 0)}


async def test_what_others_keep_in_the_bucket(make_world: MakeWorld) -> None:
    world = await begin(make_world, "a.jpg")
    for other in ("plain.jpg", "folder/x.jpg", ".hidden"):
        await obstore.put_async(world.bucket, key(world, other), b"x")
    report = await compared(world, repair=True)
    assert (report.agreed, report.foreign, report.found) == (True, 3, {})


async def test_a_write_under_way_is_left_alone(make_world: MakeWorld) -> None:
    """It has a ticket, and is settled elsewhere."""
    world = await begin(make_world, "a.jpg")
    await world.delete("a.jpg", crash="objects.record_bucket_delete")
    report = await compared(world, repair=True)
    assert (report.agreed, report.under_way) == (True, 1)
    assert await entry(world, "a.jpg")


async def test_an_upload_between_the_question_and_the_lock(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the bucket said is old by then."""
    world = await begin(make_world, "a.jpg")
    await obstore.delete_async(world.bucket, key(world, "a.jpg"))
    head = world.store.head

    async def slowly(name: str) -> Any:
        monkeypatch.setattr(world.store, "head", head)
        try:
            return await head(name)
        finally:
            world.tick(1)
            await stored(world, "a.jpg", TWO)

    monkeypatch.setattr(world.store, "head", slowly)
    report = await compared(world, repair=True)
    assert (report.found, report.under_way) == ({}, 1)
    await world.drain()
    assert (await entry(world, "a.jpg") or {})["classification_label"] == label_of(TWO)


async def test_nothing_is_gone_because_nobody_answers(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty listing, a bucket without its mark, an error: none of them is a proof."""
    world = await begin(make_world, "a.jpg")

    async def nothing(*_: Any, **__: Any) -> list[Any]:
        return []

    monkeypatch.setattr(world.store, "list", nothing)
    assert (await compared(world, repair=True)).agreed
    await obstore.delete_async(world.bucket, "system/identity")
    await obstore.delete_async(world.bucket, key(world, "a.jpg"))
    with pytest.raises(StoreUnavailable):
        await compared(world, repair=True)
    assert await entry(world, "a.jpg")
    assert not await world.db.fetchval("SELECT count(*) FROM jobs")


@pytest.mark.parametrize(
    "point",
    [
        "objects.put", "objects.delete", "library.reconcile.charge", "unit.close", "kv.put",
        "kv.delete",
    ],
)  # fmt: skip
async def test_a_death_anywhere(make_world: MakeWorld, point: str) -> None:
    """Nothing is half told; asked again it goes on, and in the end all agree."""
    world = await begin(make_world, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    world.reconcile._walk._page = 2
    kept = await copy_aside(world, "a.jpg")
    await world.delete("a.jpg")
    await world.drain()
    before = await used(world)
    await bring_back(world, "a.jpg", kept)
    await obstore.delete_async(world.bucket, key(world, "b.jpg"))
    await obstore.delete_async(world.bucket, key(world, "d.jpg"))
    armed = failpoints.arm(point, "raise@1")
    try:
        await compared(world, repair=True)
    except failpoints.FailpointError:
        assert point.startswith("kv.")
    assert armed.passes, "the work never came by"
    await compared(world, repair=True)
    await world.drain()
    assert (await compared(world)).agreed
    assert [bool(await entry(world, f"{name}.jpg")) for name in "abcd"] == [
        True,
        False,
        True,
        False,
    ]
    assert await used(world) - before == len(ONE) - 2 * len(ONE)


async def test_one_that_was_ended_goes_on(make_world: MakeWorld) -> None:
    """With what it had found; for a day, and only when the same is asked for."""
    world = await begin(make_world, *(f"{n}.jpg" for n in range(5)))
    world.reconcile._walk._page = 2
    for n in (0, 4):
        await obstore.delete_async(world.bucket, key(world, f"{n}.jpg"))

    async def begun() -> tuple[Comparison, Comparison]:
        """The first report of a walk, and its last."""
        reports = [
            Comparison.of_json(report.as_json())
            async for report in world.reconcile.compare(world.organization, repair=False)
        ]
        return reports[0], reports[-1]

    async for report in world.reconcile.compare(world.organization, repair=False):
        if report.compared == 2:
            break
    assert (await compared(world, repair=False)).compared == 5
    async for report in world.reconcile.compare(world.organization, repair=False):
        if report.compared == 2:
            break
    first, last = await begun()
    assert (first.compared, last.compared, counts(last)) == (2, 5, {Difference.GONE: (2, 0)})
    first, _ = await begun()
    assert first.compared == 0
    async for report in world.reconcile.compare(world.organization, repair=False):
        if report.compared == 2:
            break
    world.tick(86_400_001)
    first, _ = await begun()
    assert first.compared == 0


async def test_a_bucket_that_lists_folders_first(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SeaweedFS does: what is in a/ comes before a-b. More is asked about, nothing is believed."""
    names = ("a-b.jpg", "a.jpg", "b.jpg", "c.jpg", "z.jpg")
    world = await begin(make_world, *names)
    world.reconcile._walk._page = 2
    for other in ("a/x", "a/y", "c/x"):
        await obstore.put_async(world.bucket, key(world, other), b"x")
    await obstore.delete_async(world.bucket, key(world, "b.jpg"))
    whole = await world.store.list(f"{world.organization}/")

    async def folders_first(_: str, after: str, limit: int) -> list[Any]:
        def place(path: str) -> str:
            return path.replace("/", "\0")

        return [
            one for one in sorted(whole, key=lambda one: place(one.key))
            if place(one.key) > place(after)
        ][:limit]  # fmt: skip

    monkeypatch.setattr(world.store, "list", folders_first)
    report = await compared(world, repair=True)
    assert counts(report) == {Difference.GONE: (1, 1)}
    await world.drain()
    there = [name for name in names if await entry(world, name)]
    assert there == ["a-b.jpg", "a.jpg", "c.jpg", "z.jpg"]
