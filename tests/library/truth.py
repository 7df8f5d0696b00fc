"""What must hold: after each step for the name that was touched, and at the end for everything."""

from collections import Counter
from typing import Any

import obstore

from library.scripted import BROKEN, label_of
from library.world import World
from safelight.ingest.repo import Image
from safelight.objects.events import OURS

BEATEN = {"stale", "duplicate", "superseded", "same_upload", "object_present"}
OF_DELIVERIES = {
    "classification_workflow_started",
    "classification_workflow_skipped",
    "event_dropped",
    "upload_deleted",
}


async def check_step(world: World, name: str, *, alone: bool = True) -> None:
    """A row appears only for what the store holds, goes only with it, and tells the truth. Not
    `alone`: the store may have changed since."""
    story = world.story
    row = await world.db.fetchrow(
        """
        SELECT idempotency_key AS marker, source, uploads.event_time, classification_status,
               classification_label AS label, classified_at, objects.event_time AS stored_at,
               CASE WHEN present THEN objects.metadata ->> 'idempotencyKey' END AS held
        FROM (SELECT $1 || '/' || $2 AS key) AS wanted LEFT JOIN objects USING (key)
        LEFT JOIN uploads ON uploads.organization = $1 AND uploads.name = $2
        """,
        world.organization,
        name,
    )
    assert row is not None
    held = await _marker_in_bucket(world, name) if world.telling else row["held"]
    before, now = story.rows.get(name), row["marker"]
    if alone and now is not None and now != before:
        assert now == held, f"{name} became an upload that the store does not hold"
    if alone and before is not None and now is None:
        kept = before == held and await _is_stored(world, before)
        assert not kept, f"{name} lost what the store holds"
    if now is not None:
        story.rows[name] = now
        _check_row(world, dict(row), held)
    else:
        story.rows.pop(name, None)
    if not world.telling:
        _check_held(world, name, held)


def _check_row(world: World, row: dict[str, Any], held: str | None) -> None:
    content, done = world.story.contents[row["marker"]], row["classification_status"] == "done"
    assert row["label"] == (label_of(content) if done else None)
    assert (row["classified_at"] is not None) == done
    if row["source"] == OURS and row["marker"] == held:
        assert row["event_time"] == row["stored_at"], "a marker with another upload's time"


def _check_held(world: World, name: str, held: str | None) -> None:
    """A name that was deleted stays deleted until something newer is received."""
    since = world.story.deletes.get(name, 0)
    allowed = {i.idempotency_key for i in world.story.images[since:] if i.name == name}
    assert held is None or held in allowed, f"{name} was deleted and came back"


async def _is_stored(world: World, marker: str) -> bool:
    """A put to a bucket may have succeeded and its transaction failed: then the put comes again."""
    status = "SELECT status = 'STORED' FROM images WHERE idempotency_key = $1"
    return bool(await world.db.fetchval(status, marker))


async def _marker_in_bucket(world: World, name: str) -> str | None:
    try:
        found = await obstore.get_async(world.bucket, f"{world.organization}/{name}")
    except FileNotFoundError:
        return None
    marker: str = found.attributes["idempotencyKey"]
    return marker


async def check_end(world: World) -> None:
    """When everything has been delivered at least once and nothing is left to do."""
    await _check_images(world)
    rows = await world.db.fetch(
        "SELECT * FROM uploads LEFT JOIN classification_runs AS runs "
        "USING (organization, name, idempotency_key, run) WHERE organization = $1",
        world.organization,
    )
    entries = {row["name"]: dict(row) for row in rows}
    held = await _held(world)
    assert {name: row["idempotency_key"] for name, row in entries.items()} == held
    assert dict(world.story.rows) == held, "a row changed without a delivery"
    for row in entries.values():
        _check_entry(world, row)
    await _check_work(world, {row["idempotency_key"] for row in entries.values()})
    await _check_history(world, entries)


async def _held(world: World) -> dict[str, str]:
    """What the store holds, by name."""
    names = {image.name for image in world.story.images}
    if world.telling:
        found = {name: await _marker_in_bucket(world, name) for name in names}
        return {name: marker for name, marker in found.items() if marker is not None}
    rows = await world.db.fetch(
        "SELECT name, metadata ->> 'idempotencyKey' AS marker FROM objects "
        "WHERE organization = $1 AND present",
        world.organization,
    )
    return {row["name"]: row["marker"] for row in rows}


async def _check_images(world: World) -> None:
    """All of them ended, and the newest of each name that nobody deleted is its object."""
    story = world.story
    rows = await world.db.fetch(
        "SELECT id, status, EXISTS (SELECT FROM activity WHERE subject = 'image:' || images.id "
        "AND data ->> 'to' = status AND (status = 'STORED' OR data -> 'error' IS NOT NULL)) AS told "
        "FROM images WHERE organization = $1",
        world.organization,
    )
    status = {row["id"]: row["status"] for row in rows}
    assert all(row["told"] for row in rows), "a state without its history"
    assert set(status.values()) <= {"STORED", "FAILED"}
    failed = {image for image, state in status.items() if state == "FAILED"}
    assert failed <= story.damaged
    intents = "SELECT count(*) FROM delete_intents WHERE organization = $1"
    assert await world.db.fetchval(intents, world.organization) == 0
    if not world.telling:
        assert await _held(world) == _expected(story.images, story.deletes, failed)


def _expected(images: list[Image], deletes: dict[str, int], failed: set[str]) -> dict[str, str]:
    newest: dict[str, Image] = {}
    for number, image in enumerate(images):
        if number < deletes.get(image.name, 0) or image.id in failed:
            continue
        rival = newest.get(image.name)
        if rival is None or (image.created_at, image.id) > (rival.created_at, rival.id):
            newest[image.name] = image
    return {name: image.idempotency_key for name, image in newest.items()}


def _check_entry(world: World, row: dict[str, Any]) -> None:
    content = world.story.contents[row["idempotency_key"]]
    broken = content.startswith(BROKEN)
    assert row["classification_status"] == row["status"] == ("failed" if broken else "done")
    assert row["classification_label"] == (None if broken else label_of(content))
    assert row["size_bytes"] == len(content)
    assert row["image_id"] in {image.id for image in world.story.images}
    if broken:
        assert row["error"]["code"] == "UNDECODABLE"


async def _check_work(world: World, current: set[str]) -> None:
    """No run waits for a job that does not exist, and only what cannot be read is dead."""
    active = await world.db.fetch(
        "SELECT idempotency_key, status FROM classification_runs "
        "WHERE organization = $1 AND status IN ('pending', 'running')",
        world.organization,
    )
    assert active == [], "a run without a job"
    jobs = await world.db.fetch(
        "SELECT kind, status, payload, error FROM jobs WHERE organization = $1", world.organization
    )
    for job in jobs:
        assert (job["kind"], job["status"]) == ("classification.run", "dead")
        assert job["error"]["code"] == "UNDECODABLE"
        assert job["payload"]["idempotencyKey"] in current


async def _check_history(world: World, entries: dict[str, dict[str, Any]]) -> None:
    rows = await world.db.fetch(
        "SELECT type, data FROM activity WHERE organization = $1 ORDER BY seq", world.organization
    )
    lines = [(row["type"], row["data"]) for row in rows]
    for kind, data in lines:
        _check_line(kind, data)
    updated = Counter(d["idempotencyKey"] for kind, d in lines if kind == "classification_updated")
    assert set(updated.values()) <= {1}, "a marker was classified more than once"
    done = {e["idempotency_key"] for e in entries.values() if e["classification_status"] == "done"}
    assert done <= updated.keys()
    _check_no_late_errors(lines)
    told = sum(kind in OF_DELIVERIES for kind, _ in lines)
    own = await world.db.fetchval(
        "SELECT count(*) FROM object_events WHERE organization = $1 AND source = $2",
        world.organization,
        OURS,
    )
    if not world.story.forgotten:
        assert told == own + world.story.deliveries, "a delivery told twice, or not at all"


def _check_line(kind: str, data: dict[str, Any]) -> None:
    """Whatever was dropped says why, and what beat it."""
    if kind in {"classification_workflow_skipped", "event_dropped", "image_superseded"}:
        assert data["reason"]
        if data["reason"] in BEATEN or kind == "image_superseded":
            assert any(data["beatenBy"].values()), data
    if kind == "run_dropped":
        assert data.get("reason") or data.get("error")


def _check_no_late_errors(lines: list[tuple[str, dict[str, Any]]]) -> None:
    """Nobody hears of a failure after the success."""
    finished: set[str] = set()
    for kind, data in lines:
        if kind == "classification_updated":
            finished.add(data["idempotencyKey"])
        assert kind != "classification_error" or data["idempotencyKey"] not in finished
