"""Uploads right before the statement of the short road, and all that the database knows of them."""

import json
from typing import Any

from library.world import World
from safelight.infra.queue.jobs import Job
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.lifecycle import Image
from safelight.ingest.offload import object_facts
from safelight.library.arrival import Arriving
from safelight.objects.keys import object_key
from safelight.objects.local import LocalStore
from safelight.objects.store import Landed
from safelight.testing.waiting import until

FROM = ["INGESTED"]
TABLES = (
    "images", "delete_intents", "objects", "object_events", "object_outbox", "uploads",
    "tombstones", "classification_runs", "jobs", "activity", "quota_usage", "quota_changes",
    "blobs",
)  # fmt: skip
# Which nobody chooses: numbers, and what is on the database's clock.
_BY_CHANCE = {
    "id", "seq", "ordinal", "sequencer", "run_at", "queued_at", "enqueued_at", "delayed_at",
    "claim",
}  # fmt: skip


async def ready(world: World, name: str = "a.jpg", content: bytes = b"new") -> Arriving:
    """Received, claimed, and its bytes safe in the store."""
    image = await world.receive(name, content)
    return await landed(world, image)


async def landed(world: World, image: Image, job: Job[Any] | None = None) -> Arriving:
    facts, where = object_facts(image), list[Landed]()

    async def note(landed: Landed) -> None:
        where.append(landed)

    path = world.directory.path / f"{image.id}.jpg"
    await world.store.put_with(object_key(image.organization, image.name), path, facts, note)
    job = job or await world.claim(-1, OFFLOAD.name)
    assert job
    return Arriving(image, where[0], world.directory.node, facts.metadata, job, leased=False)


async def ask(world: World, *items: Arriving) -> list[str]:
    """The statement alone: its answers, or the database's own error."""
    now = world.clock.now_ms()
    rows = await world.db.fetch(
        "SELECT * FROM uploads_arrived($1, $2, $3, $4, 'world', '10 seconds')",
        world.organization,
        [item.as_row(now) for item in items],
        FROM,
        now,
    )
    return [row["outcome"] for row in rows]


async def settle(world: World, name: str = "a.jpg", content: bytes = b"old") -> None:
    """An upload with which all is done."""
    await world.receive(name, content)
    await world.drain()
    world.tick(1)


async def claimed(world: World, kind: str, nth: int = 0) -> Any:
    job = await world.claim(nth, kind)
    assert job
    return job


async def arrive(world: World, item: Arriving) -> bool:
    return await world.arrival.arrive(item.image, item.landed, item.node, item.metadata, item.job)


async def waiting(world: World, number: int) -> None:
    await until(lambda: len(world.arrival._batches._waiting.get(world.organization, ())) == number)


async def run_waits(world: World) -> Arriving:
    """An overwrite of an upload whose run is to come."""
    await world.receive("a.jpg", b"old")
    await world.work(await claimed(world, "ingest.offload"))
    world.tick(1)
    return await ready(world)


async def everything(world: World) -> dict[str, list[dict[str, Any]]]:
    """Each table, as it is."""
    return {
        table: [
            row["row"]
            for row in await world.db.fetch(
                f"SELECT to_jsonb({table}) AS row FROM {table} ORDER BY {table}::text"
            )
        ]
        for table in TABLES
    }


async def told(world: World) -> dict[str, list[dict[str, Any]]]:
    """Each table's rows of one organization in words that another one's have too: no ids, no
    numbers, but in the order of them."""
    found = {}
    for table in TABLES:
        order = {"activity": "seq", "object_events": "id", "images": "ordinal", "jobs": "id"}
        by = order.get(table, f"{table}::text")
        rows = await world.db.fetch(f"SELECT to_jsonb({table}) AS row FROM {table} ORDER BY {by}")
        found[table] = [
            _plain(world, row["row"])
            for row in rows
            if table == "blobs" or row["row"].get("organization") == world.organization
        ]
    for table, rows_ in found.items():
        if table not in {"activity", "object_events", "images", "jobs"}:
            rows_.sort(key=json.dumps)
    return found


def _plain(world: World, row: dict[str, Any]) -> dict[str, Any]:
    by_chance = _BY_CHANCE | ({"created_at"} if "lease" in row else set())
    if not isinstance(world.store, LocalStore):  # a bucket counts its eTags
        by_chance |= {"etag", "e_tag"}
    text = json.dumps({name: value for name, value in row.items() if name not in by_chance})
    text = text.replace(world.organization, "ORG")
    for number, image in enumerate(world.story.images):
        text = text.replace(image.id, f"image {number}")
        text = text.replace(image.idempotency_key, f"marker {number}")
    plain: dict[str, Any] = json.loads(text)
    return plain
