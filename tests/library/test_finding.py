"""Entries by words, label and state: whichever road a page takes, it is the page that was asked for.

The library here is large enough for every road: words that few have, or many, or many of old;
prefixes of hundreds of words; pairs that never meet."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from conftest import with_database
from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.library import repo
from safelight.library.entry import EntryStatus, LibraryFilter, RunStatus
from safelight.library.lists import repo as lists
from safelight.library.order import Mark, Stamp, Tombstone
from safelight.objects.keys import prefix_query, words

_LIBRARY = """
INSERT INTO uploads (organization, name, event_time, source, idempotency_key, classification_status,
                     classification_label, search)
SELECT organization, name, 1000 + n / 2, 'safelight', 'm' || n, status, label,
       array_to_tsvector(string_to_array(lower(replace(concat_ws(' ', name, label), '.', ' ')), ' '))
FROM (
    SELECT n, CASE WHEN n % 10 = 9 THEN 'other' ELSE 'org' END AS organization,
           CASE WHEN n <= 2600 THEN 'alpha beta ' WHEN n <= 5200 THEN 'alpha gamma '
                WHEN n % 2 = 0 THEN 'zeta delta ' ELSE 'zeta ' END || 'n' || n || '.jpg' AS name,
           CASE n % 40 WHEN 1 THEN 'pending' WHEN 2 THEN 'failed' ELSE 'done' END AS status,
           CASE WHEN n % 40 NOT IN (1, 2) THEN (ARRAY['HEN', 'COCK', 'HEN HARRIER'])[1 + n % 7 / 3] END
               AS label
    FROM generate_series(1, 8000) AS n
) AS made
"""
QUERIES = (
    None, "jpg", "alpha", "beta", "zeta", "delta", "n12", "n1", "n", "n77", "n4001", "nothing", "hen",
    "harrier", "alpha beta", "beta gamma", "gamma hen", "delta jpg zeta", "zeta alpha", "cock delta",
    "beta n12", "alpha jpg n1", "al be he jp", "hen cock",
)  # fmt: skip
STATUSES: tuple[EntryStatus | None, ...] = (
    None, RunStatus.DONE, RunStatus.FAILED, RunStatus.PENDING, RunStatus.RUNNING,
)  # fmt: skip
LABELS = (None, "HEN", "COCK", "OWL")


@pytest.fixture(scope="module")
def library(postgres_url: str) -> Iterator[str]:
    async def administer(statement: str) -> None:
        connection = await asyncpg.connect(with_database(postgres_url, "postgres"))
        await connection.execute(statement)
        await connection.close()

    async def make(url: str) -> None:
        await administer("CREATE DATABASE finding TEMPLATE safelight STRATEGY file_copy")
        connection = await asyncpg.connect(url)
        await connection.execute(_LIBRARY)
        for name, marker in (("alpha beta n41.jpg", "m41"), ("zeta n7961.jpg", "m7961")):
            await connection.execute(
                "SELECT job_enqueue('classification.run', 'org', jsonb_build_object("
                "'name', $1::text, 'idempotencyKey', $2::text), 'org/' || $1 || '/' || $2, "
                "p_owner => 'w', p_lease => interval '1 day')",
                name,
                marker,
            )
        await connection.close()

    url = with_database(postgres_url, "finding")
    asyncio.run(make(url))
    yield url
    asyncio.run(administer("DROP DATABASE finding WITH (FORCE)"))


async def expected(db: Database, wanted: LibraryFilter) -> list[str]:
    """One plain statement, which looks at everything."""
    rows = await db.fetch(
        """
        SELECT name, classification_status AS status, idempotency_key IN ('m41', 'm7961') AS at_work
        FROM uploads WHERE organization = 'org' AND ($1::text IS NULL OR classification_label = $1)
          AND ($2::text IS NULL OR search @@ $2::tsquery)
        ORDER BY event_time DESC, name DESC
        """,
        wanted.label,
        wanted.query,
    )
    shown = [(row["name"], "running" if row["at_work"] else row["status"]) for row in rows]
    return [name for name, status in shown if wanted.status in {None, status}]


@pytest.mark.parametrize("status", STATUSES)
async def test_every_road_leads_to_the_same_page(library: str, status: EntryStatus | None) -> None:
    db = await Database.open(library, pool_size=2)
    for text, label in itertools.product(QUERIES, LABELS):
        wanted = LibraryFilter(label, text and prefix_query(text), status)
        names = await expected(db, wanted)
        for start in {0, 1, len(names) // 3, len(names) - 3} & set(range(len(names) + 1)):
            before = await place(db, names[start - 1]) if start else None
            page = await lists.page(db, "org", wanted, before, 60)
            assert [entry.name for entry in page] == names[start : start + 61], (text, label, start)
    db.terminate()


async def place(db: Database, name: str) -> tuple[int, str]:
    time: int = await db.fetchval(
        "SELECT event_time FROM uploads WHERE organization = 'org' AND name = $1", name
    )
    return time, name


async def counted(db: Database, wanted: LibraryFilter) -> dict[str, Any]:
    """By lists of what is there."""
    names = await expected(db, wanted)
    labels = await db.fetch(
        "SELECT classification_label AS label, count(*) FROM uploads "
        "WHERE organization = 'org' AND name = ANY($1) AND classification_label IS NOT NULL "
        "GROUP BY label",
        await expected(db, LibraryFilter(None, wanted.query, wanted.status)),
    )
    statuses = {
        status: len(await expected(db, LibraryFilter(wanted.label, wanted.query, status)))
        for status in STATUSES
        if status
    }
    return {
        "total": len(names),
        "labels": {row["label"]: row["count"] for row in labels},
        "statuses": statuses,
    }


@pytest.mark.parametrize("status", STATUSES)
async def test_each_is_counted(library: str, status: EntryStatus | None) -> None:
    db = await Database.open(library, pool_size=2)
    for text, label in itertools.product((None, "alpha", "hen", "zeta n79", "nothing"), LABELS):
        wanted = LibraryFilter(label, text and prefix_query(text), status)
        found = await lists.facets(db, "org", wanted)
        assert not found.capped
        assert await counted(db, wanted) == {
            "total": found.total,
            "labels": {one.label: one.count for one in found.labels},
            "statuses": {one.status: one.count for one in found.statuses},
        }, (text, label)
    db.terminate()


async def test_counting_ends_somewhere(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    db = await Database.open(library, pool_size=2)
    monkeypatch.setattr(lists, "_MOST_COUNTED", 100)
    monkeypatch.setattr(lists, "_MOST_FOUND", 50)
    found = await lists.facets(db, "org", LibraryFilter())
    assert found.capped
    assert {one.count for one in found.labels} == {100}
    found = await lists.facets(db, "org", LibraryFilter(None, prefix_query("alpha")))
    assert (found.capped, found.total) == (True, 50)
    monkeypatch.setattr(lists, "_MOST_COUNTED_LABELS", 2)
    found = await lists.facets(db, "org", LibraryFilter())
    assert (found.capped, len(found.labels)) == (True, 2)
    db.terminate()


# The words of an entry


async def kept(connection: Any) -> list[tuple[Any, ...]]:
    rows = await connection.fetch("SELECT * FROM upload_words ORDER BY name, word, event_time")
    return [tuple(row) for row in rows]


async def of_entries(connection: Any) -> list[tuple[Any, ...]]:
    rows = await connection.fetch(
        "SELECT organization, left(word, 100) AS word, event_time, name "
        "FROM uploads, unnest(tsvector_to_array(search)) AS word ORDER BY name, word, event_time"
    )
    return [tuple(row) for row in rows]


async def test_words_come_move_and_go_with_their_entry(database: Database) -> None:
    long = "x" * 120
    async with database.transaction() as connection:
        unit = Unit(connection, "org", 5)
        for name in ("a b.jpg", "a c.jpg", f"{long} {long}y.jpg"):
            await repo.mark(unit, name, Mark(Stamp(1, None, "r2"), name, "e"), None, {})
            assert await kept(connection) == await of_entries(connection)
        assert len(await kept(connection)) == 9
        label = "SELECT library_label('org', $1, $1, 1, 'OWL', 0.5, 'm', $2, 7)"
        for name in ("a b.jpg", f"{long} {long}y.jpg"):
            assert await connection.fetchval(label, name, words(name, "OWL"))
            assert await kept(connection) == await of_entries(connection)
        assert {row[3] for row in await kept(connection) if row[1] == "owl"} == {
            "a b.jpg",
            f"{long} {long}y.jpg",
        }
        await connection.execute("UPDATE uploads SET search = 'a'::tsvector WHERE name = 'a c.jpg'")
        assert await kept(connection) == await of_entries(connection)
        await repo.move_time(unit, "a b.jpg", Mark(Stamp(9, None, "r2"), "a b.jpg", "e"))
        assert {row[2] for row in await kept(connection) if row[3] == "a b.jpg"} == {9}
        assert await kept(connection) == await of_entries(connection)
        await repo.mark(unit, "a b.jpg", Mark(Stamp(10, None, "r2"), "new", "e"), None, {})
        assert await kept(connection) == await of_entries(connection)
        for name in ("a b.jpg", f"{long} {long}y.jpg"):
            await repo.remove(unit, name, Tombstone(Stamp(11, None, "r2")))
        assert [row[1:] for row in await kept(connection)] == [("a", 1, "a c.jpg")]


async def test_a_very_long_word_is_found(database: Database) -> None:
    """Beyond what is kept of it, the entry itself is asked."""
    long = "x" * 110
    async with database.transaction() as connection:
        unit = Unit(connection, "org", 5)
        for name in (f"{long}a.jpg", f"{long}b.jpg"):
            await repo.mark(unit, name, Mark(Stamp(1, None, "r2"), name, "e"), None, {})
    for text, found in ((long, 2), (f"{long}a", 1), (f"{long}c", 0), ("x", 2), ("x" * 100, 2)):
        wanted = LibraryFilter(query=prefix_query(text))
        assert len(await lists.page(database, "org", wanted, None, 50)) == found, text
