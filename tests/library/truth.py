"""What must hold: after each step for the name that was touched, and at the end for everything."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import obstore

from library.scripted import BROKEN, drawing_of, label_of
from library.story import Story
from library.world import World
from safelight.infra.history import SYSTEM
from safelight.ingest.lifecycle import Image
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
    own = await world.own()
    row = await own.fetchrow(
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
    known = (row["label"], row["classified_at"] is not None)
    assert known == (label_of(content) if done else None, done), "not what its bytes say"
    if not world.telling and row["source"] == OURS and row["marker"] == held:
        assert row["event_time"] == row["stored_at"], "a marker with another upload's time"


def _check_held(world: World, name: str, held: str | None) -> None:
    """A name that was deleted stays deleted until something newer is received."""
    if name in world.story.meddled:
        return
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
    # A real one forgets the case of names.
    marker: str = {key.lower(): value for key, value in found.attributes.items()}["idempotencykey"]
    return marker


_EVERYTHING = """
SELECT
  (SELECT jsonb_agg(to_jsonb(images) || jsonb_build_object('told', EXISTS (
      SELECT FROM activity WHERE organization = $1 AND subject = 'image:' || images.id
      AND data ->> 'to' = status AND (status = 'STORED' OR data -> 'error' IS NOT NULL))))
   FROM images WHERE organization = $1) AS images,
  (SELECT jsonb_agg(to_jsonb(uploads)) FROM uploads WHERE organization = $1) AS uploads,
  (SELECT jsonb_agg(to_jsonb(t) || jsonb_build_object('data', convert_from(data, 'LATIN1')))
   FROM thumbnails AS t WHERE organization = $1) AS thumbnails,
  (SELECT jsonb_agg(to_jsonb(runs)) FROM classification_runs AS runs WHERE organization = $1) AS runs,
  (SELECT jsonb_agg(to_jsonb(jobs)) FROM jobs WHERE organization = $1) AS jobs,
  (SELECT jsonb_agg(to_jsonb(objects)) FROM objects WHERE key ^@ ($1 || '/') AND present) AS objects,
  (SELECT jsonb_agg(to_jsonb(i)) FROM delete_intents AS i WHERE organization = $1) AS intents,
  (SELECT jsonb_agg(to_jsonb(activity) ORDER BY seq) FROM activity WHERE organization = $1) AS lines,
  (SELECT jsonb_agg(jsonb_build_array(key, event_time, metadata ->> 'idempotencyKey') ORDER BY id)
   FROM object_events WHERE organization = $1 AND source = 'safelight') AS own
"""

Row = dict[str, Any]


@dataclass
class Everything:
    """All that the database knows of one organization."""

    images: list[Row]
    uploads: list[Row]
    thumbnails: list[Row]
    runs: list[Row]
    jobs: list[Row]
    objects: list[Row]
    intents: list[Row]
    lines: list[Row]
    own: list[tuple[str, int, str | None]]  # events: key, time and marker, in their order

    @classmethod
    async def of(cls, world: World) -> Self:
        row = await (await world.own()).fetchrow(_EVERYTHING, world.organization)
        assert row is not None
        return cls(**{name: value or [] for name, value in row.items()})


async def check_end(world: World) -> None:
    """When everything has been delivered at least once and nothing is left to do."""
    found = await Everything.of(world)
    held = await _held(world, found)
    rows = {row["name"]: row["idempotency_key"] for row in found.uploads}
    assert rows == held, "the library is not what the store holds"
    _check_images(world, found, held)
    _check_entries(world, found)
    _check_drawn(world, found)
    _check_work(found)
    _check_events(found)
    _check_history(world, found)


async def _held(world: World, found: Everything) -> dict[str, str]:
    """What the store holds, by name."""
    if world.telling:
        names = {image.name for image in world.story.images}
        markers = {name: await _marker_in_bucket(world, name) for name in names}
        return {name: marker for name, marker in markers.items() if marker is not None}
    return {row["name"]: row["metadata"]["idempotencyKey"] for row in found.objects}


async def check_agreed(world: World) -> None:
    """Of a bucket that tells nothing: it holds what the index says."""
    found = await Everything.of(world)
    names = {image.name for image in world.story.images}
    markers = {name: await _marker_in_bucket(world, name) for name in names}
    held = {name: marker for name, marker in markers.items() if marker is not None}
    assert held == await _held(world, found), "the index is not what the bucket holds"


def _check_images(world: World, found: Everything, held: dict[str, str]) -> None:
    """All of them ended, and the newest of each name that nobody deleted is its object."""
    assert all(row["told"] for row in found.images), "a state without its history"
    assert {row["status"] for row in found.images} <= {"STORED", "FAILED"}
    failed = {row["id"] for row in found.images if row["status"] == "FAILED"}
    assert failed <= world.story.damaged
    assert found.intents == []
    if not world.telling:
        _check_expected(world.story, held, failed)


def _check_expected(story: Story, held: dict[str, str], failed: set[str]) -> None:
    """Others may have put there what they liked; a delete without an answer may have happened."""
    expected = _expected(story, failed)
    for name, since in story.deletes_in_vain.items():
        if name not in held and expected.get(name) not in _markers(story.images[since:]):
            expected.pop(name, None)
    ours = held.keys() - story.meddled
    assert {name: held[name] for name in ours} == {
        name: marker for name, marker in expected.items() if name not in story.meddled
    }, "an older upload won"


def _markers(images: list[Image]) -> set[str]:
    return {image.idempotency_key for image in images}


def _expected(story: Story, failed: set[str]) -> dict[str, str]:
    newest: dict[str, Image] = {}
    for number, image in enumerate(story.images):
        if number < story.deletes.get(image.name, 0) or image.id in failed:
            continue
        newest[image.name] = image  # in the order they were recorded, whatever the clock said
    return {name: image.idempotency_key for name, image in newest.items()}


def _check_entries(world: World, found: Everything) -> None:
    runs = {(run["name"], run["idempotency_key"], run["run"]): run for run in found.runs}
    for row in found.uploads:
        content = world.story.contents[row["idempotency_key"]]
        run = runs[row["name"], row["idempotency_key"], row["run"]]
        broken = content.startswith(BROKEN)
        assert row["classification_status"] == run["status"] == ("failed" if broken else "done")
        assert row["classification_label"] == (None if broken else label_of(content))
        assert row["size_bytes"] == len(content)
        assert row["image_id"] in {image.id for image in world.story.images}
        assert not broken or run["error"]["code"] == "UNDECODABLE"


def _check_drawn(world: World, found: Everything) -> None:
    """What was drawn is of the entry's own bytes, and of nobody else's. A remote model's answer from
    before a crash brought a label alone."""
    small = {row["name"]: (row["idempotency_key"], row["data"]) for row in found.thumbnails}
    for row in found.uploads:
        marker = row["idempotency_key"]
        drawing = drawing_of(world.story.contents[marker])
        if row["classification_status"] == "done" and row["drawn"]:
            assert (row["checksum"], row["dominant_color"]) == (drawing.digest, drawing.color)
            assert small.pop(row["name"]) == (marker, (drawing.thumbnail or b"").decode("latin-1"))
        else:
            assert row["classification_status"] == "failed" or world.classifier.remote
    assert small == {}, "a thumbnail without its entry"


def _check_work(found: Everything) -> None:
    """No run waits for a job that does not exist, and no image is an operator's business."""
    active = [run for run in found.runs if run["status"] in {"pending", "running"}]
    assert active == [], "a run without a job"
    assert [(job["kind"], job["status"], job["error"]) for job in found.jobs] == []


def _check_events(found: Everything) -> None:
    """Of uploads of one name. One that is told again has its time; a delete that is may be given
    another, as nobody knows when it was."""
    last: dict[str, tuple[int, str]] = {}
    for key, time, marker in found.own:
        if marker is not None:
            rises = time > last.get(key, (0, ""))[0]
            assert rises or last[key] == (time, marker), "a time that did not rise"
            last[key] = time, marker


def _check_history(world: World, found: Everything) -> None:
    lines = [(line["type"], line["data"]) for line in found.lines]
    for kind, data in lines:
        _check_line(kind, data)
    updated = Counter(d["idempotencyKey"] for kind, d in lines if kind == "classification_updated")
    brought = {i.idempotency_key for i in world.story.images if i.name in world.story.meddled}
    twice = {marker for marker, times in updated.items() if times > 1} - brought  # as from a backup
    assert not twice, "a marker was classified more than once"
    done = {r["idempotency_key"] for r in found.uploads if r["classification_status"] == "done"}
    assert done <= updated.keys(), "a success that nobody was told of"
    _check_no_late_errors(lines)
    told_dropped = {(d["idempotencyKey"], d["run"]) for kind, d in lines if kind == "run_dropped"}
    dropped = {(r["idempotency_key"], r["run"]) for r in found.runs if r["status"] == "dropped"}
    assert dropped <= told_dropped, "a run ended and nobody knows why"
    told = sum(kind in OF_DELIVERIES and d.get("actor") != SYSTEM for kind, d in lines)
    needless = sum(k == "job_discarded" and d["kind"] == "objects.deliver" for k, d in lines)
    if not world.story.forgotten:
        due = len(found.own) + world.story.deliveries - needless
        assert told == due, "a delivery told twice, or not at all"


def _check_line(kind: str, data: Row) -> None:
    """Whatever was dropped says why, and what beat it."""
    if kind in {"classification_workflow_skipped", "event_dropped", "image_superseded"}:
        assert data["reason"]
        if data["reason"] in BEATEN or kind == "image_superseded":
            assert any(data["beatenBy"].values()), data
    if kind == "run_dropped":
        assert data.get("reason") or data.get("error")


def _check_no_late_errors(lines: list[tuple[str, Row]]) -> None:
    """Nobody hears of a failure after the success, or of one of an upload that was replaced."""
    finished: set[str] = set()
    current: dict[str, str] = {}
    for kind, data in lines:
        if kind == "classification_workflow_started":
            current[data["name"]] = data["idempotencyKey"]
        if kind == "classification_updated":
            finished.add(data["idempotencyKey"])
        late = kind == "classification_error" and data["idempotencyKey"] in finished
        assert not late, "a failure after the success"
        replaced = kind == "classification_error" and (
            current.get(data["name"], data["idempotencyKey"]) != data["idempotencyKey"]
        )
        assert not replaced, "a failure of what was replaced"
