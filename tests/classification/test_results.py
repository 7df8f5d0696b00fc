"""Results of an organization share a statement; each is taken or dropped by itself."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from safelight.classification import repo
from safelight.classification.base import Drawing
from safelight.classification.jobs import DRAW, RUN
from safelight.classification.lifecycle import DrawnParts, ReadyResult, Result, RunTarget
from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.infra.queue.jobs import Job, JobId

DIGEST = "ab" * 32
VECTOR = struct.pack("<3e", 0.6, -0.8, 0.0)
DRAWING = Drawing(VECTOR, b"small", "#112233", DIGEST)
RESULT = Result("TABBY", 0.5, "model", 7, (("TABBY", 0.5),), DRAWING)
ENTRY = "SELECT * FROM uploads WHERE organization = 'org' AND name = $1"
KEPT = "SELECT idempotency_key, {} FROM {} WHERE organization = 'org' AND name = $1"


async def with_job(db: Any, kind: str = RUN.name) -> int:
    return int(
        await db.fetchval(
            "INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, claim, "
            "lease_until, owner) VALUES ($1, 'org', '', '{}', 0, 'running', now(), 1, "
            "now() + interval '1 hour', 'me') RETURNING id",
            kind,
        )
    )


async def with_entry(db: Any, name: str, marker: str = "m", run: int = 1, **more: Any) -> None:
    await db.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, run, "
        "checksum, classification_status) VALUES ('org', $1, 1, 'safelight', $2, $3, $4, $5)",
        name,
        marker,
        run,
        more.get("checksum"),
        more.get("status", "pending"),
    )


async def finding(db: Any, name: str, result: Result = RESULT, claim: int = 1) -> ReadyResult:
    """For a run whose job is ours; with another claim it is somebody else's."""
    await db.execute(
        "INSERT INTO classification_runs (organization, name, idempotency_key, run, status, "
        "started_at) VALUES ('org', $1, 'm', 1, 'pending', 1)",
        name,
    )
    job = Job(JobId(await with_job(db)), RUN, "org", {}, claim, 1)
    target = RunTarget("org", name, "m", 1)
    return ReadyResult(target, result, job, [_line(name, "told")], [_line(name, "dropped")])


def _line(name: str, kind: str) -> Line:
    return Line(f"upload:{name}", kind)


async def history(db: Any) -> list[tuple[str, str]]:
    rows = await db.fetch("SELECT subject, type FROM activity ORDER BY seq")
    return [(row["subject"].removeprefix("upload:"), row["type"]) for row in rows]


async def test_everything_of_one_decode_is_there_together(database: Database) -> None:
    await with_entry(database, "a")
    found = await finding(database, "a")
    assert await repo.apply(database, [found], 9, embeds=True) == [(True, True)]
    entry = await database.fetchrow(ENTRY, "a")
    assert entry
    assert (entry["classification_label"], entry["classified_at"]) == ("TABBY", 7)
    assert (entry["checksum"], entry["dominant_color"], entry["drawn"]) == (DIGEST, "#112233", 7)
    small = await database.fetchrow(KEPT.format("data", "thumbnails"), "a")
    assert small
    assert tuple(small) == ("m", b"small")
    vector = await database.fetchrow(KEPT.format("vector, model", "embeddings"), "a")
    assert vector
    assert tuple(vector) == ("m", VECTOR, "model")
    assert await database.fetchval("SELECT count(*) FROM jobs") == 0
    assert await history(database) == [("a", "told")]


async def test_each_has_its_own_answer_in_the_order_that_was_asked(database: Database) -> None:
    """Of one whose entry has moved on, one whose job is somebody else's, one of other bytes."""
    for name in ("fine", "also"):
        await with_entry(database, name)
    await with_entry(database, "moved", run=2)
    await with_entry(database, "other", checksum="cd" * 32)
    await with_entry(database, "lost")
    await with_entry(database, "newer", marker="n", checksum="cd" * 32)
    names = ("moved", "fine", "lost", "other", "also", "gone", "newer")
    findings = [await finding(database, name, claim=2 if name == "lost" else 1) for name in names]
    answers = await repo.apply(database, findings, 9, embeds=True)
    assert dict(zip(names, answers, strict=True)) == {
        "moved": (True, False),
        "fine": (True, True),
        "lost": (False, False),
        "other": (True, None),
        "also": (True, True),
        "gone": (True, False),
        "newer": (True, False),
    }
    for table in ("thumbnails", "embeddings"):
        rows = await database.fetch(f"SELECT name FROM {table} ORDER BY name")
        assert [row["name"] for row in rows] == ["also", "fine"]
    runs = await database.fetch("SELECT name, status FROM classification_runs ORDER BY name")
    assert {row["name"]: row["status"] for row in runs} == {
        "also": "done", "fine": "done", "gone": "dropped", "moved": "dropped", "lost": "pending",
        "newer": "dropped", "other": "pending",
    }  # fmt: skip
    left = await database.fetch("SELECT id FROM jobs ORDER BY id")
    assert [row["id"] for row in left] == [findings[2].job.id, findings[3].job.id]
    assert await history(database) == [
        ("also", "told"), ("fine", "told"), ("gone", "dropped"), ("moved", "dropped"),
        ("newer", "dropped"),
    ]  # fmt: skip


async def test_what_was_not_drawn_leaves_what_there_is(database: Database) -> None:
    """As a result that a remote model gave before a crash: the label alone."""
    await with_entry(database, "a", checksum=DIGEST)
    await repo.apply(database, [await finding(database, "a")], 9, embeds=True)
    await database.execute("DELETE FROM classification_runs")
    bare = await finding(database, "a", replace(RESULT, label="LYNX", drawing=Drawing()))
    assert await repo.apply(database, [bare], 10, embeds=True) == [(True, True)]
    entry = await database.fetchrow(ENTRY, "a")
    assert entry
    assert (entry["classification_label"], entry["dominant_color"]) == ("LYNX", "#112233")
    assert (entry["checksum"], entry["drawn"]) == (DIGEST, 7)
    for table in ("thumbnails", "embeddings"):
        assert await database.fetchval(f"SELECT count(*) FROM {table}") == 1


async def test_a_second_drawing_takes_the_place_of_the_first(database: Database) -> None:
    await with_entry(database, "a")
    await repo.apply(database, [await finding(database, "a")], 9, embeds=True)
    made = await database.fetchval("SELECT made_at FROM thumbnails")
    await database.execute("DELETE FROM classification_runs")
    again = replace(DRAWING, thumbnail=b"again", embedding=VECTOR[:4])
    found = await finding(database, "a", replace(RESULT, drawing=again))
    await repo.apply(database, [found], 9, embeds=True)
    row = await database.fetchrow("SELECT data, made_at FROM thumbnails")
    assert row
    assert (row["data"], row["made_at"] > made) == (b"again", True)
    assert await database.fetchval("SELECT vector FROM embeddings") == VECTOR[:4]


async def test_a_server_without_vectors_keeps_everything_else(database: Database) -> None:
    await database.execute("DROP EXTENSION vector CASCADE; DROP TABLE embeddings")
    assert not await repo.embeds(database)
    await with_entry(database, "a")
    assert await repo.apply(database, [await finding(database, "a")], 9, embeds=False) == [
        (True, True)
    ]
    assert await database.fetchval("SELECT data FROM thumbnails") == b"small"
    await database.execute("SELECT library_forget('org', 'a', 9)")
    # What was missing is installed, and the server starts again.
    for _ in range(2):
        assert await database.fetchval("SELECT embeddings_at_start()")
    assert await repo.embeds(database)


async def test_a_server_that_has_no_vectors_starts(database: Database) -> None:
    await database.execute("DROP EXTENSION vector CASCADE; DROP TABLE embeddings")
    await database.execute("CREATE TYPE halfvec AS (nothing integer)")  # in the way of its own
    assert not await database.fetchval("SELECT embeddings_at_start()")
    assert not await repo.embeds(database)


OTHERS = [("a", "n", "done"), ("a", "m", "pending"), ("b", "m", "done")]


@pytest.mark.parametrize("other", OTHERS)
async def test_drawing_applies_only_to_the_labelled_entry_it_is_for(
    database: Database, other: tuple[str, str, str]
) -> None:
    name, marker, status = other
    await with_entry(database, name, marker, status=status)
    before = await database.fetchrow("SELECT * FROM uploads")
    assert await drawn(database)
    assert await database.fetchrow("SELECT * FROM uploads") == before
    for table in ("thumbnails", "embeddings", "jobs", "activity"):
        assert await database.fetchval(f"SELECT count(*) FROM {table}") == 0


async def drawn(database: Database, claim: int = 1) -> bool:
    payload = {"name": "a", "idempotencyKey": "m"}
    job = Job(JobId(await with_job(database, DRAW.name)), DRAW, "org", payload, claim, 1)
    return await repo.drawn(database, job, DRAWING, DrawnParts.of(DRAWING), "model", 9, embeds=True)


async def test_drawing_keeps_the_label_and_tells_nobody(database: Database) -> None:
    await with_entry(database, "a", status="done", checksum="cd" * 32)
    assert await drawn(database)
    entry = await database.fetchrow(ENTRY, "a")
    assert entry
    assert (entry["classification_label"], entry["classified_at"]) == (None, None)
    assert (entry["dominant_color"], entry["checksum"], entry["drawn"]) == ("#112233", "cd" * 32, 7)
    assert await database.fetchval("SELECT data FROM thumbnails") == b"small"
    assert await database.fetchval("SELECT vector FROM embeddings") == VECTOR
    assert await history(database) == []


async def test_who_lost_the_job_draws_nothing(database: Database) -> None:
    await with_entry(database, "a", status="done")
    assert not await drawn(database, claim=2)
    assert await database.fetchval("SELECT drawn FROM uploads") == 0
    assert await database.fetchval("SELECT count(*) FROM thumbnails") == 0


async def test_what_cannot_be_drawn_is_marked(database: Database) -> None:
    await with_entry(database, "a", status="done")
    async with database.transaction() as connection:
        payload = DRAW.payload("a", "m")
        await repo.draw_no_more(Unit(connection, "org", 9), payload)
    assert await database.fetchval("SELECT drawn FROM uploads") == DrawnParts.NO_MORE


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (7, ["0", "1", "2", "3", "4", "5", "6"]),
        (5, ["0", "1", "2", "3", "4", "6"]),
        (3, ["0", "1", "2", "4", "5", "6"]),
        (1, ["0", "2", "4", "6"]),
    ],
)
async def test_entries_that_lack_something_are_found(
    database: Database, wanted: int, found: list[str]
) -> None:
    """And enqueued once, below everything else; those without a label, or marked, are not."""
    for bits in range(16):
        await with_entry(database, str(bits), status="done")
        await with_entry(database, f"{bits} pending")
    await database.execute("UPDATE uploads SET drawn = split_part(name, ' ', 1)::smallint")
    assert await repo.enqueue_drawing(database, DrawnParts(wanted), 100) == len(found)
    assert await repo.enqueue_drawing(database, DrawnParts(wanted), 100) == 0
    rows = await database.fetch("SELECT payload ->> 'name' AS name, priority FROM jobs")
    assert sorted(row["name"] for row in rows) == found
    assert {row["priority"] for row in rows} == {-10}


async def test_only_so_many_are_enqueued_at_a_time(database: Database) -> None:
    for number in range(5):
        await with_entry(database, str(number), status="done")
    assert await repo.enqueue_drawing(database, DrawnParts(7), 3) == 3
    assert await repo.enqueue_drawing(database, DrawnParts(7), 3) == 0
