"""Whatever kept the library from being what the store holds, one look puts it right.

Each divergence is made by hand in the tables, as a dead letter, a lost notification or somebody's
DELETE would leave it.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness import picture
from inprocess import application
from library.conftest import MakeWorld
from library.reconciling import (
    ONE,
    TWO,
    bury,
    entry,
    look_twice,
    lose,
    reconciled,
    stored,
    story,
    world_of,
)
from library.scripted import Scripted, label_of
from library.truth import check_end
from safelight.infra import failpoints
from safelight.library.reconcile import reconcile as module
from safelight.library.reconcile.reconcile import LibraryReconcile


async def test_an_object_without_entry(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    assert await lose(world, "objects.deliver") == 1
    reason = await look_twice(world, "a.jpg", "created")
    assert "the library did not have it" in reason
    found = await entry(world, "a.jpg")
    assert found
    assert found["classification_label"] == label_of(ONE)


async def test_a_dead_letter_of_its_creation(make_world: MakeWorld) -> None:
    """After an outage the library is right without a person, and the letter is not left to one."""
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    await bury(world, "objects.deliver")
    # Of another name whose library is right: a person's, as ever.
    await world.again(0)
    await world.db.execute(
        "UPDATE jobs SET payload = payload || '{\"name\": \"other.jpg\"}' WHERE status = 'queued'"
    )
    await bury(world, "objects.deliver")
    other = (await world.dead_letters())[-1]
    assert await world.reconcile.run() == 1
    assert await world.dead_letters() == [other]
    await world.drain()
    told = await story(world, "a.jpg")
    assert ("job_discarded", "What it was to tell is told again.") in told
    assert (await entry(world, "a.jpg") or {})["classification_status"] == "done"


async def test_a_replacement_that_was_never_told(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    await world.drain()
    await stored(world, "a.jpg", TWO)
    await lose(world, "objects.deliver")
    assert "another upload" in await look_twice(world, "a.jpg", "created")
    assert (await entry(world, "a.jpg") or {})["classification_label"] == label_of(TWO)


async def test_a_deletion_that_was_never_told(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    await world.drain()
    await world.delete("a.jpg")
    await bury(world, "objects.deliver")
    assert "the store does not hold it" in await look_twice(world, "a.jpg", "deleted")
    assert await entry(world, "a.jpg") is None
    kinds = [kind for kind, _ in await story(world, "a.jpg")]
    assert kinds.count("upload_deleted") == 1
    assert await world.db.fetchval("SELECT count(*) FROM tombstones") == 1
    # And an upload after it is not taken for older than its end.
    world.tick(1)
    await stored(world, "a.jpg", TWO)
    await world.drain()
    assert await entry(world, "a.jpg")


@pytest.mark.parametrize("dropped", [False, True])
async def test_a_run_without_a_job(make_world: MakeWorld, dropped: bool) -> None:
    """Also one that was dropped when the store denied for a moment what it holds."""
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    job = await world.claim(0, "objects.deliver")
    assert job
    await world.work(job)
    await lose(world, "classification.run")
    if dropped:
        await world.db.execute("UPDATE classification_runs SET status = 'dropped', finished_at = 1")
        await world.db.execute(
            "SELECT activity_append($1, 1, jsonb_build_array(jsonb_build_object('subject', "
            "'upload:a.jpg', 'type', 'run_dropped', 'data', jsonb_build_object('idempotencyKey', "
            "idempotency_key, 'run', run, 'reason', 'gone')))) FROM uploads",
            world.organization,
        )
    assert await world.reconcile.run() == 1
    await world.drain()
    assert await world.reconcile.run() == 0
    await check_end(world)
    found = await entry(world, "a.jpg")
    assert found
    assert (found["run"], found["classification_label"]) == (2, label_of(ONE))
    assert "nothing was at work on it" in str(await reconciled(world, "a.jpg"))


async def test_a_run_that_gave_up_unheard(make_world: MakeWorld) -> None:
    """The dead letter stays a person's; the entry says that nobody goes on by himself."""
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    job = await world.claim(0, "objects.deliver")
    assert job
    await world.work(job)
    await bury(world, "classification.run")
    assert await world.reconcile.run() == 1
    assert await world.reconcile.run() == 0
    assert (await entry(world, "a.jpg") or {})["classification_status"] == "failed"
    row = await world.db.fetchrow("SELECT status, error FROM classification_runs")
    assert row
    assert (row["status"], row["error"]["code"]) == ("failed", "WORKER_DIED")
    assert ("classification_error", None) in await story(world, "a.jpg")
    [letter] = await world.dead_letters()
    assert await world.redrive(letter)
    await world.drain()
    await check_end(world)
    assert (await entry(world, "a.jpg") or {})["classification_status"] == "done"


@pytest.mark.parametrize("status", ["queued", "delayed", "running"])
async def test_what_is_under_way_is_left_alone(make_world: MakeWorld, status: str) -> None:
    """The delivery may wait for a long time because something is away."""
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    await world.db.execute(
        "UPDATE jobs SET status = $1, run_at = now() + interval '1 day', "
        "owner = CASE WHEN $1 = 'running' THEN 'x' END, "
        "lease_until = CASE WHEN $1 = 'running' THEN now() END",
        status,
    )
    assert await world.reconcile.run() == 0
    assert await world.db.fetchval("SELECT count(*) FROM object_events") == 1


async def test_what_is_young_is_left_alone(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    world.reconcile._young_ms = 300_000
    await stored(world, "a.jpg")
    await lose(world, "objects.deliver")
    for step, mended in ((0, 0), (299_999, 0), (2, 1)):
        world.tick(step)
        assert await world.reconcile.run() == mended


async def test_what_a_wrong_clock_dated_is_not_young_for_ever(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    world.reconcile._young_ms = 300_000
    world.tick(31 * 86_400_000)
    await stored(world, "a.jpg")
    await lose(world, "objects.deliver")
    world.tick(-31 * 86_400_000)
    assert await world.reconcile.run() == 1


async def test_a_delivery_that_begins_meanwhile(make_world: MakeWorld) -> None:
    """Suspected, then replaced before its lock was taken: the newer event has its own delivery."""
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    await lose(world, "objects.deliver")
    head = world.store.head

    async def slowly(key: str) -> Any:
        world.store.head = head  # type: ignore[method-assign]
        await stored(world, "a.jpg", TWO)
        return await head(key)

    world.store.head = slowly  # type: ignore[method-assign]
    assert await world.reconcile.run() == 0
    await world.drain()
    assert (await entry(world, "a.jpg") or {})["classification_label"] == label_of(TWO)


async def test_objects_without_a_marker_are_nobodys(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    await stored(world, "a.jpg")
    await lose(world, "objects.deliver")
    await world.db.execute("UPDATE objects SET metadata = '{}'")
    assert await world.reconcile.run() == 0


async def test_it_goes_on_where_it_stopped(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    world = await world_of(make_world)
    world.reconcile._walk._page = 2
    names = [f"{n}.jpg" for n in range(5)]
    for name in names:
        await stored(world, name)
    await lose(world, "objects.deliver")
    assert [await world.reconcile.run() for _ in range(4)] == [2, 2, 1, 0]
    await world.drain()
    for name in names:
        assert await entry(world, name)


async def test_one_that_cannot_be_put_right_stops_nobody(make_world: MakeWorld) -> None:
    world = await world_of(make_world)
    for name in ("a.jpg", "b.jpg"):
        await stored(world, name)
    await lose(world, "objects.deliver")
    failpoints.arm("objects.notifications.tell_again", "raise@1")
    assert await world.reconcile.run() == 1
    await world.drain()
    assert (await entry(world, "a.jpg"), bool(await entry(world, "b.jpg"))) == (None, True)
    assert await world.reconcile.run() == 1


@pytest.mark.parametrize(
    "point",
    [
        "objects.notifications.tell_again", "queue.discard", "unit.close", "library.restart",
        "library.reconcile.say_failed", "kv.put",
    ],
)  # fmt: skip
async def test_a_death_anywhere(make_world: MakeWorld, point: str) -> None:
    """Nothing is half told, and the next look does it."""
    world = await world_of(make_world)
    for name in ("told.jpg", "started.jpg", "failed.jpg"):
        await stored(world, name)
    jobs = [await world.claim(0, "objects.deliver") for _ in range(3)]
    for job in jobs[1:]:
        assert job
        await world.work(job)
    await bury(world, "objects.deliver")
    await world.db.execute("DELETE FROM jobs WHERE payload ->> 'name' = 'started.jpg'")
    await bury(world, "classification.run")
    armed = failpoints.arm(point, "raise@1")
    try:
        await world.reconcile.run()
    except failpoints.FailpointError:
        assert point == "kv.put"
    assert armed.passes, "the work never came by"
    await world.reconcile.run()
    await world.drain()
    assert await world.reconcile.run() == 0
    found = {name: await entry(world, name) or {} for name in ("told.jpg", "started.jpg")}
    assert {row["classification_label"] for row in found.values()} == {label_of(ONE)}
    assert (await entry(world, "failed.jpg") or {})["classification_status"] == "failed"
    for name in ("told.jpg", "started.jpg", "failed.jpg"):
        assert len(await reconciled(world, name)) == 1
    assert len(await world.dead_letters()) == 1


# Beside everything else


async def test_beside_uploads_deletes_and_runs(
    database_url: str, tmp_path: Path, model: Scripted, quiet: None
) -> None:
    """It looks all the time, with nothing too young for it, and finds nothing to do."""
    looks = 0
    async with application(database_url, tmp_path, worker=True) as app, app.client() as client:
        reconcile = app.registry.get(LibraryReconcile)
        reconcile._young_ms = -1

        async def look(stop: asyncio.Event) -> None:
            nonlocal looks
            while not stop.is_set():
                assert await reconcile.run() == 0
                looks += 1

        async def use(number: int) -> None:
            for turn in range(8):
                name = f"{(number + turn) % 12}.jpg"
                answer = await client.post("/api/upload", files={"file": (name, picture())})
                assert answer.status_code == 201
                if turn % 3 == 2:
                    await client.delete(f"/api/organizations/default/uploads/{name}")

        stop = asyncio.Event()
        looking = asyncio.create_task(look(stop))
        await asyncio.gather(*(use(number) for number in range(24)))
        stop.set()
        await looking
        told = "SELECT count(*) FROM activity WHERE type = 'upload_reconciled'"
        assert await app.db.fetchval(told) == 0
    assert looks > 3
