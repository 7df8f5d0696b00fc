"""Each condition under which an entry is classified anew, by rows that differ in that one."""

from typing import Any

import asyncpg
import pytest

from safelight.infra.db import Database

LAST = 2**62


async def with_entry(db: Database, name: str, **columns: Any) -> None:
    facts = {
        "organization": "org", "event_time": 5, "source": "safelight", "idempotency_key": "m",
        "classification_status": "done", "classification_label": "CAT",
        "classification_model": "new@1", "run": 1, "drawn": 7, "search": "",
    }  # fmt: skip
    await db.execute(
        "INSERT INTO uploads SELECT * FROM jsonb_populate_record(NULL::uploads, $1)",
        facts | {"name": name} | columns,
    )


async def again(db: Database, most: int = 10, **wanted: Any) -> dict[str, tuple[bool, int | None]]:
    """Of each entry that was looked at: whether it is wanted, and the run that began."""
    rows = await db.fetch(
        "SELECT * FROM library_again('org', $1, $2, $3, $4, $5, 9)",
        wanted.get("label"),
        wanted.get("not_by"),
        *wanted.get("before", (LAST, "")),
        most,
    )
    return {row["name"]: (row["wanted"], row["run"]) for row in rows}


async def test_the_newest_first_of_one_organization_and_before_the_place(
    database: Database,
) -> None:
    await with_entry(database, "a", event_time=1)
    await with_entry(database, "b", event_time=2)
    await with_entry(database, "c", event_time=2)
    await with_entry(database, "d", event_time=3)
    await with_entry(database, "x", organization="other")
    assert await again(database, before=(2, "c")) == {"b": (True, 2), "a": (True, 2)}
    assert await again(database, most=1) == {"d": (True, 2)}
    rows = await database.fetch("SELECT name, run FROM uploads WHERE run > 1 ORDER BY name")
    assert [(row["name"], row["run"]) for row in rows] == [("a", 2), ("b", 2), ("d", 2)]


async def test_who_labelled_it(database: Database) -> None:
    models = {"a": "new@1", "b": "new@2", "c": "old@1", "d": "newer@1", "e": None}
    for name, model in models.items():
        await with_entry(database, name, classification_model=model)
    assert {n for n, (wanted, _) in (await again(database, not_by="new")).items() if wanted} == set(
        "cde"
    )
    assert (await again(database, not_by="new@1"))["b"] == (True, 2)


@pytest.mark.parametrize(
    ("status", "expected"),
    [("pending", (False, None)), ("running", (False, None)), ("failed", (True, 2))],
)
async def test_how_it_stands(database: Database, status: str, expected: object) -> None:
    await with_entry(database, "a", classification_status=status)
    assert await again(database) == {"a": expected}
    found = await database.fetchval("SELECT classification_status FROM uploads")
    assert found == ("pending" if status == "failed" else status)


async def test_one_that_is_at_work_is_left_alone(database: Database) -> None:
    await with_entry(database, "a")
    assert await again(database) == {"a": (True, 2)}
    assert await again(database) == {"a": (True, None)}


async def test_one_that_somebody_writes_just_now_is_left_alone(
    database: Database, database_url: str
) -> None:
    await with_entry(database, "a")
    await with_entry(database, "b")
    other = await asyncpg.connect(database_url)
    async with other.transaction():
        await other.execute("SELECT object_lock('org/a')")
        assert await again(database) == {"b": (True, 2), "a": (True, None)}
    await other.close()


async def test_it_waits_below_new_uploads(database: Database) -> None:
    await with_entry(database, "a")
    await again(database)
    [job] = await database.fetch("SELECT kind, key, priority, payload FROM jobs")
    assert (job["kind"], job["key"], job["priority"]) == ("classification.run", "org/a/m", -5)
    assert job["payload"] == {"name": "a", "idempotencyKey": "m", "run": 2}
