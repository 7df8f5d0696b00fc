"""A delete takes effect whatever becomes of the run, and is told once."""

from typing import Any

import pytest

from library.conftest import MakeWorld
from library.truth import check_end
from library.world import World

UNSTOPPABLE = """
CREATE OR REPLACE FUNCTION job_cancel(p_kind text, p_key text, p_running boolean) RETURNS bigint
LANGUAGE plpgsql AS $$ BEGIN RAISE 'nothing can be stopped today'; END $$
"""


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    world = make_world()
    await world.begin()
    return world


async def do(world: World, kind: str) -> None:
    job = await world.claim(kind=kind)
    assert job is not None
    await world.work(job)


async def told(world: World, kind: str) -> list[dict[str, Any]]:
    rows = await world.db.fetch(
        "SELECT data FROM activity WHERE organization = $1 AND type = $2 ORDER BY seq",
        world.organization,
        kind,
    )
    return [row["data"] for row in rows]


async def entries(world: World) -> int:
    found: int = await world.db.fetchval(
        "SELECT count(*) FROM uploads WHERE organization = $1", world.organization
    )
    return found


@pytest.mark.parametrize("running", [False, True])
async def test_a_run_that_cannot_be_stopped_keeps_no_image(world: World, running: bool) -> None:
    await world.receive("a.jpg", b"a")
    await do(world, "ingest.offload")
    await do(world, "objects.deliver")
    run = await world.claim(kind="classification.run") if running else None
    thought = await world.think(run) if run else None
    cancel = await world.db.fetchval("SELECT pg_get_functiondef('job_cancel'::regproc)")
    await world.db.execute(UNSTOPPABLE)
    assert await world.delete("a.jpg")
    await do(world, "objects.deliver")
    assert await entries(world) == 0
    assert len(await told(world, "upload_deleted")) == 1
    await world.db.execute(cancel)
    if thought:
        await world.conclude(thought, "answer")
    await world.drain()
    assert await told(world, "classification_updated") == []
    assert await world.dead_letters() == []
    await check_end(world)


@pytest.mark.parametrize("steps", [0, 1, 2, 3], ids=["on its way", "stored", "entered", "labelled"])
@pytest.mark.parametrize("order", ["one by one", "at once", "backwards"])
async def test_three_deletes_of_a_name_are_one_message(
    world: World, steps: int, order: str
) -> None:
    for _ in range(2):  # the second time there is a tombstone already
        await world.receive("a.jpg", b"a")
        for kind in ("ingest.offload", "objects.deliver", "classification.run")[:steps]:
            await do(world, kind)
        before = len(await told(world, "upload_deleted"))
        for _ in range(3):
            world.tick(1)
            assert await world.delete("a.jpg")
            if order == "one by one":
                await world.drain()
        await world.drain(backwards=order == "backwards")
        assert await entries(world) == 0
        assert len(await told(world, "upload_deleted")) == before + 1
    await check_end(world)


async def test_a_first_start_takes_the_place_of_a_job_nobody_noted(world: World) -> None:
    """The queue outranks our notes: what works for a marker is stopped also when no run is known."""
    image = await world.receive("a.jpg", b"a")
    await do(world, "ingest.offload")
    await world.db.execute(
        "SELECT job_enqueue('classification.run', $1, $2, $1 || '/a.jpg/' || $3)",
        world.organization,
        {"name": "a.jpg", "idempotencyKey": image.idempotency_key, "run": 7},
        image.idempotency_key,
    )
    await do(world, "objects.deliver")
    [run] = await world.db.fetch(
        "SELECT payload FROM jobs WHERE kind = 'classification.run' AND organization = $1",
        world.organization,
    )
    assert run["payload"]["run"] == 1
    await world.drain()
    await check_end(world)
