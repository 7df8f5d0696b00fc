"""What the library's statements touch, and what they leave alone."""

from typing import Any

import pytest

from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.library import repo
from safelight.library.order import Mark, Stamp, Tombstone

NAME, OTHER = "a.jpg", "b.jpg"


def mark(marker: str, time: int = 1) -> Mark:
    return Mark(Stamp(time, None, "safelight"), marker, "e")


def tombstone(time: int) -> Tombstone:
    return Tombstone(Stamp(time, None, "r2"))


async def begin(connection: Any) -> Unit:
    """Two names, each with its marker and a run under way."""
    unit = Unit(connection, "org", 5)
    for name in (OTHER, NAME):
        assert await repo.mark(unit, name, mark(f"of {name}"), None, {}) == (1, None)
    assert await connection.fetchval("SELECT count(*) FROM uploads") == 2
    return unit


async def of(connection: Any, name: str) -> dict[str, list[Any]]:
    """All that there is of a name."""
    return {
        table: await connection.fetch(f"SELECT * FROM {table} WHERE name = $1", name)
        for table in ("uploads", "tombstones", "classification_runs")
    }


async def test_a_look_is_at_one_name(database: Database) -> None:
    async with database.transaction() as connection:
        unit = await begin(connection)
        await repo.remove(unit, NAME, tombstone(9))
        assert (await repo.look(unit, OTHER)).tombstone is None
        seen = await repo.look(unit, NAME)
        assert (seen.row, seen.tombstone) == (None, tombstone(9))


async def test_a_marker_takes_the_place_of_the_one_before_it(database: Database) -> None:
    """Its run is stopped, its row goes, and other names keep theirs."""
    async with database.transaction() as connection:
        unit = await begin(connection)
        other = await of(connection, OTHER)
        run = await repo.mark(unit, NAME, mark("new", 2), mark(f"of {NAME}"), {})
        assert run == (1, 1)
        assert await of(connection, OTHER) == other
        found = await of(connection, NAME)
        assert [row["idempotency_key"] for row in found["uploads"]] == ["new"]
        ended = {row["idempotency_key"]: row["status"] for row in found["classification_runs"]}
        assert ended == {f"of {NAME}": "dropped", "new": "pending"}


async def test_a_removed_row_leaves_its_newest_tombstone(database: Database) -> None:
    async with database.transaction() as connection:
        unit = await begin(connection)
        other = await of(connection, OTHER)
        assert await repo.remove(unit, NAME, tombstone(9)) == 1
        assert await repo.remove(unit, NAME, tombstone(11)) is None
        assert await of(connection, OTHER) == other
        found = await of(connection, NAME)
        assert found["uploads"] == []
        assert [row["event_time"] for row in found["tombstones"]] == [11]
        assert [row["status"] for row in found["classification_runs"]] == ["dropped"]


@pytest.mark.parametrize(("before", "left"), [(5, 1), (6, 0)])
async def test_tombstones_are_purged_by_age(database: Database, before: int, left: int) -> None:
    async with database.transaction() as connection:
        await repo.remove(Unit(connection, "org", 5), NAME, tombstone(9))
    assert await repo.purge_tombstones(database, before) == 1 - left
    assert await database.fetchval("SELECT count(*) FROM tombstones") == left
