"""A library that is not what the store holds, made by hand, and what one look makes of it."""

from typing import Any

from library.conftest import MakeWorld
from library.truth import check_end
from library.world import World

ONE, TWO = b"one", b"two"


async def world_of(make_world: MakeWorld, **options: bool) -> World:
    world = make_world(**options)
    await world.begin()
    return world


async def stored(world: World, name: str, content: bytes = ONE) -> None:
    """The image is in the store; its event waits for delivery."""
    await world.receive(name, content)
    job = await world.claim(-1, "ingest.offload")
    assert job
    await world.work(job)


async def lose(world: World, kind: str) -> int:
    """Jobs of a kind are gone, as if they had never been."""
    rows = await world.db.fetch("DELETE FROM jobs WHERE kind = $1 RETURNING id", kind)
    if kind == "objects.deliver":
        world.story.deliveries -= len(rows)  # nobody will tell of them
    return len(rows)


async def bury(world: World, kind: str) -> None:
    """Jobs of a kind gave up, and nobody else was told."""
    await world.db.execute(
        "UPDATE jobs SET status = 'dead', died_at = now(), owner = NULL, lease_until = NULL, "
        """error = '{"code": "WORKER_DIED", "message": "It died."}' WHERE kind = $1""",
        kind,
    )


async def entry(world: World, name: str) -> dict[str, Any] | None:
    row = await world.db.fetchrow(
        "SELECT * FROM uploads WHERE organization = $1 AND name = $2", world.organization, name
    )
    return dict(row) if row else None


async def story(world: World, name: str) -> list[tuple[str, str | None]]:
    rows = await world.db.fetch(
        "SELECT type, data ->> 'reason' AS reason FROM activity "
        "WHERE organization = $1 AND subject = $2 ORDER BY seq",
        world.organization,
        f"upload:{name}",
    )
    return [(row["type"], row["reason"]) for row in rows]


async def reconciled(world: World, name: str) -> list[str | None]:
    return [reason for kind, reason in await story(world, name) if kind == "upload_reconciled"]


async def look_twice(world: World, name: str, what: str) -> str:
    """One look puts it right and says so; another finds nothing."""
    assert await world.reconcile.run() == 1
    await world.drain()
    assert await world.reconcile.run() == 0
    [reason] = await reconciled(world, name)
    count = "safelight_library_reconciled_total"
    assert world.metrics.registry.get_sample_value(count, {"what": what}) == 1
    assert reason
    await check_end(world)
    return reason
