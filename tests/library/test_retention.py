"""Originals that are older than their organization keeps them."""

from pathlib import Path
from typing import Any

import obstore
import pytest

from inprocess import application
from library.conftest import MakeWorld
from library.reconciling import ONE, TWO, entry, stored, story, world_of
from library.scripted import label_of
from library.truth import check_end
from library.world import DAY_MS, World
from objects.stores import settle
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.ingest.put_back import UploadOriginals
from safelight.library.retention import repo
from safelight.library.retention.retention import RetentionLimits, RulesOfTheBucket

ACTOR = {"type": "user", "name": "ada"}
STORES = pytest.mark.parametrize("bucket", [False, True], ids=["files", "bucket"])


async def begin(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, **options: bool) -> World:
    """The database's clock goes with the test's, or time would not be steady."""
    world = await world_of(make_world, **options)

    async def database_ms(_: Any) -> int:
        return world.clock.now_ms()

    monkeypatch.setattr("safelight.infra.steady.database_ms", database_ms)
    await RetentionLimits(world.queue.units, telling=False).change(world.organization, 30, ACTOR)
    return world


async def leap(world: World, days: int) -> None:
    """What the steady time says after so many days in which somebody looked every hour."""
    world.tick(days * DAY_MS)
    await world.db.execute("DELETE FROM kv WHERE key = 'steady'")


async def used(world: World) -> int:
    total: int = await world.db.fetchval("SELECT coalesce(sum(bytes), 0) FROM quota_changes")
    return total


async def is_there(world: World, name: str) -> bool:
    return name in [one.key.partition("/")[2] for one in await world.store.list(limit=100)]


@STORES
async def test_what_is_older_goes(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, bucket: bool
) -> None:
    world = await begin(make_world, monkeypatch, bucket=bucket)
    await stored(world, "old.jpg")
    await world.drain()
    await leap(world, 1)
    await stored(world, "new.jpg", TWO)
    await world.drain()
    await leap(world, 29)
    assert await world.retention.run() == 0, "not a moment too early"
    world.tick(1)
    assert await world.retention.run() == 1
    assert await world.retention.run() == 0, "one that is about to go is not told of again"
    assert await used(world) == -len(ONE)
    await world.drain()
    assert await entry(world, "old.jpg") is None
    assert await entry(world, "new.jpg")
    assert [await is_there(world, name) for name in ("old.jpg", "new.jpg")] == [False, True]
    told = await story(world, "old.jpg")
    assert ("upload_expired", "Originals are kept for 30 days here: removed by retention.") in told
    assert told[-1] == ("upload_deleted", "retention")
    actor = await world.db.fetchval(
        "SELECT data -> 'actor' ->> 'type' FROM activity WHERE type = 'upload_expired'"
    )
    assert actor == "system"
    cause = "SELECT metadata ->> 'cause' FROM object_events WHERE action = 'deleted'"
    assert await world.db.fetchval(cause) == "LifecycleDeletion"
    assert await world.db.fetchval("SELECT count(*) FROM tombstones") == 1
    assert not await world.db.fetchval("SELECT count(*) FROM object_outbox")
    await stored(world, "old.jpg", TWO)
    await world.drain()
    assert (await entry(world, "old.jpg") or {})["classification_label"] == label_of(TWO)


@STORES
async def test_one_that_was_uploaded_again_meanwhile(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, bucket: bool
) -> None:
    """Between the page and the lock; its bytes are the same, it is another upload."""
    world = await begin(make_world, monkeypatch, bucket=bucket)
    await stored(world, "a.jpg")
    await world.drain()
    await leap(world, 31)
    delete_if = world.store.delete_if

    async def later(*arguments: Any) -> bool:
        await stored(world, "a.jpg")
        return await delete_if(*arguments)

    monkeypatch.setattr(world.store, "delete_if", later)
    assert await world.retention.run() == 0
    await world.drain()
    assert await entry(world, "a.jpg")
    assert await is_there(world, "a.jpg")
    assert not await world.db.fetchval("SELECT count(*) FROM object_outbox")
    await check_end(world)


async def test_a_write_under_way_is_left_alone(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a bucket: who knows which of the two would come last."""
    world = await begin(make_world, monkeypatch, bucket=True)
    await stored(world, "a.jpg")
    await world.drain()
    await leap(world, 31)
    await world.receive("a.jpg", TWO)
    job = await world.claim(-1, "ingest.offload")
    assert job
    await world.work(job, crash="objects.record_bucket_put")
    assert await world.retention.run() == 0
    assert await is_there(world, "a.jpg")
    assert await world.db.fetchval("SELECT count(*) FROM object_outbox") == 1


async def test_an_upload_between_the_last_look_and_the_bytes(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes may be hit. Its ticket stays open for that, and its file with it."""
    world = await begin(make_world, monkeypatch, bucket=True)
    await stored(world, "a.jpg")
    await world.drain()
    await leap(world, 31)
    delete_bytes = world.store._delete_bytes  # type: ignore[attr-defined]

    async def later(key: str) -> None:
        await obstore.put_async(world.bucket, key, TWO)
        await world.db.execute(
            "UPDATE objects SET etag = 'other', event_time = event_time + $1", 31 * DAY_MS
        )
        await delete_bytes(key)

    monkeypatch.setattr(world.store, "_delete_bytes", later)
    assert await world.retention.run() == 0
    assert await world.db.fetchval("SELECT present FROM objects WHERE organization IS NOT NULL")
    [ticket] = await world.db.fetch("SELECT seen FROM object_outbox")
    assert ticket["seen"] == world.clock.now_ms() - 31 * DAY_MS, "it says what it was decided about"


async def test_other_organizations_and_limits(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await begin(make_world, monkeypatch)
    for n in range(5):
        await stored(world, f"{n}.jpg")
    await world.drain()
    limits = RetentionLimits(world.queue.units, telling=False)
    await limits.change(world.organization, None, ACTOR)
    await leap(world, 400)
    assert await world.retention.run() == 0
    await limits.change(world.organization, 1, ACTOR)
    assert await limits.of(world.organization) == 1
    world.retention._batch = 2
    assert await world.retention.run() == 5


async def test_a_clock_that_leapt_removes_nothing(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await begin(make_world, monkeypatch)
    await stored(world, "a.jpg")
    await world.drain()
    assert await world.retention.run() == 0
    world.tick(31 * DAY_MS)
    assert await world.retention.run() == 0


async def test_a_bucket_that_tells_has_rules_of_its_own(make_world: MakeWorld) -> None:
    world = await world_of(make_world, telling=True)
    limits = RetentionLimits(world.queue.units, telling=True)
    with pytest.raises(RulesOfTheBucket):
        await limits.change(world.organization, 30, ACTOR)
    await limits.change(world.organization, None, ACTOR)
    async with world.queue.units.open(world.organization) as unit:
        await repo.put(unit, 1)
    await stored(world, "a.jpg")
    await world.drain()
    world.tick(31 * DAY_MS)
    assert await world.retention.run() == 0


@pytest.mark.parametrize(
    ("bucket", "point"),
    [
        (False, "library.retention.put"), (False, "library.delete_aged"),
        (False, "library.retention.expire"), (True, "library.retention.expire"),
        (True, "objects.bucket_delete_aged"), (True, "objects.record_bucket_delete_aged"),
    ],
)  # fmt: skip
async def test_a_death_anywhere(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, bucket: bool, point: str
) -> None:
    """The next run does it, or settling; it is told once, and the bytes are given back once."""
    armed = failpoints.arm(point, "raise@1")
    if point == "library.retention.put":
        with pytest.raises(FailpointError):
            await begin(make_world, monkeypatch)
    world = await begin(make_world, monkeypatch, bucket=bucket)
    await stored(world, "a.jpg")
    await world.drain()
    await leap(world, 31)
    if point != "library.retention.put":
        with pytest.raises(FailpointError):
            await world.retention.run()
    assert armed.passes, "the work never came by"
    await world.retention.run()
    if bucket:
        assert await world.db.fetchval("SELECT count(*) FROM object_outbox") == 1
        await settle(world.queue.units, world.store, UploadOriginals(world.db))
        await world.retention.run()
    await world.drain()
    assert await entry(world, "a.jpg") is None
    assert not await is_there(world, "a.jpg")
    assert [kind for kind, _ in await story(world, "a.jpg")].count("upload_deleted") == 1
    assert await used(world) == -len(ONE)
    assert not await world.db.fetchval("SELECT count(*) FROM object_outbox")


async def test_a_ticket_that_nothing_was_sent_with(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A death right before it is taken back leaves it to be settled, and the image where it is."""
    world = await begin(make_world, monkeypatch, bucket=True)
    await stored(world, "a.jpg")
    await world.drain()
    await leap(world, 31)

    async def no(*_: Any) -> bool:
        return False

    monkeypatch.setattr(repo, "is_still", no)
    failpoints.arm("objects.redeem", "raise@1")
    with pytest.raises(FailpointError):
        await world.retention.run()
    await settle(world.queue.units, world.store, UploadOriginals(world.db))
    assert await is_there(world, "a.jpg")
    assert not await world.db.fetchval("SELECT count(*) FROM object_outbox")


# The setting


async def test_an_admin_sets_it(database_url: str, tmp_path: Path) -> None:
    async with application(database_url, tmp_path) as app, app.client() as client:
        path = "/api/organizations/default/retention"
        assert (await client.get(path)).json() == {"days": None, "keptBy": "safelight"}
        for days in (30, 7, None):
            answer = await client.put(path, json={"days": days})
            assert (answer.status_code, answer.json()) == (
                200,
                {"days": days, "keptBy": "safelight"},
            )
            assert (await client.get(path)).json()["days"] == days
        for body in ({}, {"days": 0}, {"days": -1}, {"days": 36_501}, {"days": 1, "weeks": 1}):
            assert (await client.put(path, json=body)).status_code == 422
        told = await app.db.fetch(
            "SELECT data -> 'days' AS days FROM activity WHERE type = 'retention_changed' ORDER BY seq"
        )
        assert [row["days"] for row in told] == [30, 7, None]
