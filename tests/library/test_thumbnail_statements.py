"""Each condition of a thumbnail's statements, by rows that differ in that one."""

import asyncio
from typing import Any

import pytest

from holding import until_waiting
from safelight.infra.db import Database
from safelight.library.thumbnails import repo
from safelight.library.thumbnails.lifecycle import LargeThumbnail, SmallThumbnail

KEY = "org/a"


async def with_entry(
    db: Database, name: str = "a", organization: str = "org", marker: str = "m", at: int = 5
) -> None:
    await db.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, checksum, "
        "classification_status) VALUES ($1, $2, $3, 'safelight', $4, 'c', 'done')",
        organization,
        name,
        at,
        marker,
    )


async def with_small(
    db: Database, name: str = "a", organization: str = "org", marker: str = "m"
) -> None:
    await db.execute(
        "INSERT INTO thumbnails VALUES ($1, $2, $3, 7, $4)",
        organization,
        name,
        marker,
        f"{organization}/{name}/{marker}".encode(),
    )


async def with_large(
    db: Database,
    key: str,
    name: str = "a",
    organization: str = "org",
    marker: str = "m",
    ends_at: int | None = None,
) -> None:
    await repo.begin(db, key, organization, name, marker, 7, 0)
    await db.execute("UPDATE large_thumbnails SET ends_at = $2 WHERE key = $1", key, ends_at)


async def with_object(db: Database, at: int, marker: str | None, key: str = KEY) -> None:
    """As the index has it; without a marker it is gone."""
    await db.execute(
        "INSERT INTO objects (key, organization, name, present, size, content_type, metadata, etag, "
        "event_time) VALUES ($1, 'org', 'a', $2, 0, '', $3, '', $4)",
        key,
        marker is not None,
        {"idempotencyKey": marker} if marker else {},
        at,
    )


async def keys(db: Database) -> dict[str, int | None]:
    rows = await db.fetch("SELECT key, ends_at FROM large_thumbnails ORDER BY key")
    return {row["key"]: row["ends_at"] for row in rows}


async def test_one_is_found_by_organization_and_name(database: Database) -> None:
    for organization, name in (("org", "a"), ("org", "b"), ("else", "a")):
        await with_entry(database, name, organization)
        await with_small(database, name, organization)
        await with_large(database, f"{organization}-{name}", name, organization)
    small = await repo.small(database, "org", "a")
    assert small == SmallThumbnail("m", "c", 7, b"org/a/m")
    assert await repo.large(database, "org", "a") == LargeThumbnail("m", "c", True, "org-a", 7)
    assert await repo.small(database, "else", "b") is None
    assert await repo.large(database, "else", "b") is None


async def test_one_of_another_upload_is_not_shown(database: Database) -> None:
    await with_entry(database)
    await with_small(database, marker="n")
    await with_large(database, "k", marker="n")
    await with_large(database, "bs", name="b")
    await with_large(database, "elses", organization="else")
    assert await repo.small(database, "org", "a") is None
    found = await repo.large(database, "org", "a")
    assert found
    assert (found.key, found.labelled) == (None, True)


async def test_one_that_is_being_made_is_not_shown(database: Database) -> None:
    await with_entry(database)
    await with_large(database, "k", ends_at=10**15)
    found = await repo.large(database, "org", "a")
    assert found
    assert found.key is None


@pytest.mark.parametrize(
    ("at", "marker", "shown"),
    [
        (5, "m", True),  # as it is nearly always
        (6, "m", True),  # a bucket's own time is another than ours
        (6, "n", False),  # replaced, and the event is on its way
        (6, None, False),  # deleted
        (5, None, True),  # an older delete, as of before a bucket told of a new object
        (4, "n", True),
    ],
)
async def test_what_was_deleted_or_replaced_is_not_shown(
    database: Database, at: int, marker: str | None, shown: bool
) -> None:
    """From the moment the index says so, whenever its event comes."""
    await with_entry(database)
    await with_small(database)
    await with_large(database, "k")
    await with_object(database, at, marker)
    await with_object(database, 9, None, "org/b")
    assert (await repo.small(database, "org", "a") is not None) == shown
    assert (await repo.large(database, "org", "a") is not None) == shown


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ({}, True),
        ({"marker": "n"}, False),
        ({"name": "b"}, False),
        ({"organization": "else"}, False),
    ],
)
async def test_it_becomes_its_entrys_and_no_others(
    database: Database, entry: dict[str, Any], kept: bool
) -> None:
    await with_entry(database, **entry)
    await with_large(database, "k", ends_at=9)
    await with_large(database, "other", ends_at=9)
    assert await repo.keep(database, "k", "org", "a", "m") == kept
    assert await keys(database) == {"k": None if kept else 9, "other": 9}


async def test_an_entry_has_one(database: Database) -> None:
    await with_entry(database)
    await with_large(database, "elses", organization="else")
    await with_large(database, "bs", name="b")
    await with_large(database, "k", ends_at=9)
    await with_large(database, "l", ends_at=9)
    assert await repo.keep(database, "k", "org", "a", "m")
    assert not await repo.keep(database, "l", "org", "a", "m")
    assert not await repo.keep(database, "gone", "org", "a", "m")


async def test_it_waits_for_whoever_ends_the_entry(database: Database) -> None:
    """And then finds none; otherwise it would stay for ever."""
    await with_entry(database)
    await with_large(database, "k", ends_at=9)
    async with database.transaction() as connection:
        await connection.execute("SELECT library_remove('org', 'a', 9, NULL, 'safelight', 9)")
        keeping = asyncio.create_task(repo.keep(database, "k", "org", "a", "m"))
        await until_waiting(database, 1)
    assert not await keeping


async def test_what_is_over_is_collected_and_nothing_else(database: Database) -> None:
    for key, ends_at in (("a", None), ("b", 5), ("c", 6)):
        await with_large(database, key, name=key, ends_at=ends_at)
    assert await repo.ended(database, 5, 10) == ["b"]
    assert await repo.ended(database, 6, 1) == ["b"]
    for key in ("a", "b"):
        await repo.collected(database, key)
    assert await keys(database) == {"a": None, "c": 6}
    await repo.give_up(database, "a", 8)
    assert await keys(database) == {"a": 8, "c": 6}


async def test_an_entrys_end_ends_its_own_and_no_others(database: Database) -> None:
    for organization, name in (("org", "a"), ("org", "b"), ("else", "a")):
        await with_small(database, name, organization)
        await with_large(database, f"{organization}-{name}", name, organization)
        await database.execute(
            "INSERT INTO embeddings VALUES ($1, $2, 'm', 'x', '[1]')", organization, name
        )
    await with_large(database, "made now", ends_at=10**15)
    await database.execute("SELECT library_forget('org', 'a', 9)")
    assert await keys(database) == {
        "org-a": 9, "org-b": None, "else-a": None, "made now": 10**15,
    }  # fmt: skip
    for table in ("thumbnails", "embeddings"):
        rows = await database.fetch(f"SELECT organization, name FROM {table} ORDER BY 1, 2")
        assert [tuple(row) for row in rows] == [("else", "a"), ("org", "b")]
    jobs = "SELECT count(*) FROM jobs WHERE kind = 'library.collect_thumbnails'"
    assert await database.fetchval(jobs) == 1
    await database.execute("DELETE FROM jobs")
    await database.execute("SELECT library_forget('org', 'none', 9)")
    assert await database.fetchval(jobs) == 0


async def test_another_upload_of_the_name_forgets_what_was_drawn(database: Database) -> None:
    await with_entry(database)
    await with_small(database)
    await with_large(database, "k")
    upload = {
        "organization": "org", "name": "a", "event_time": 6, "source": "safelight",
        "idempotency_key": "n",
    }  # fmt: skip
    await database.execute("SELECT library_mark($1, '{}', 'm', 9)", upload)
    assert await keys(database) == {"k": 9}
    assert await database.fetchval("SELECT count(*) FROM thumbnails") == 0
    row = await database.fetchrow("SELECT drawn, checksum, dominant_color FROM uploads")
    assert row
    assert tuple(row) == (0, None, None)
