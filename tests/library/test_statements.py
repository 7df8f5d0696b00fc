"""What the library's statements touch, and what they leave alone."""

from typing import Any

import pytest

from safelight.infra.activity import Unit
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.library import repo
from safelight.library.entry import LibraryFilter
from safelight.library.lists import repo as lists
from safelight.library.order import Mark, Stamp, Tombstone
from safelight.library.reconcile import repo as reconcile
from safelight.library.reconcile.compare import Indexed
from safelight.library.retention import repo as retention
from safelight.objects.store import Cleared, Place

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


# What is asked


async def put(db: Any, name: str = NAME, **columns: Any) -> None:
    """An entry as it is given."""
    row = {"organization": "org", "event_time": 5, "marker": "m", "run": 1, **columns}
    await db.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, run, "
        "classification_status, classification_label, classification_score, classification_model) "
        "VALUES ($1, $2, $3, 'safelight', $4, $5, $6, $7, 0.5, 'model')",
        row["organization"],
        name,
        row["event_time"],
        row["marker"],
        row["run"],
        row.get("status", "done"),
        row.get("label"),
    )


async def bury(db: Database, name: str, time: int) -> None:
    async with db.transaction() as connection:
        await repo.remove(Unit(connection, "org", 5), name, tombstone(time))


@pytest.mark.parametrize(
    ("entry", "told"),
    [({}, True), ({"name": OTHER}, False), ({"organization": "other"}, False)],
)
async def test_a_delete_is_told_while_there_is_an_entry(
    database: Database, entry: dict[str, str], told: bool
) -> None:
    """Its object is gone already; without either nothing is left to end. It is answered alike."""
    await database.execute("INSERT INTO organizations VALUES ('org', 1) ON CONFLICT DO NOTHING")
    await put(database, **entry)
    line = Line(f"upload:{NAME}", "upload_delete_requested", {})
    written = await repo.delete(database, "org", NAME, Cleared(Place.BLOB), line, 9)
    assert (written.event_id is not None, written.job_id is not None) == (told, told)
    assert written.event_time == 9
    kind = await database.fetchval("SELECT type FROM activity WHERE organization = 'org'")
    assert kind == "upload_delete_requested"


async def test_an_entry_is_found_by_its_name(database: Database) -> None:
    await put(database, OTHER)
    assert await repo.find(database, "org", NAME) is None
    assert not await repo.was_ever_seen(database, "org", NAME)
    await bury(database, OTHER, 1)
    assert not await repo.was_ever_seen(database, "org", NAME)
    await bury(database, NAME, 1)
    assert await repo.was_ever_seen(database, "org", NAME)
    await put(database)
    found = await repo.find(database, "org", NAME)
    assert found
    assert found.name == NAME


@pytest.mark.parametrize(
    ("entry", "current"),
    [({}, True), ({"name": OTHER}, False), ({"marker": "n"}, False), ({"run": 2}, False)],
)
async def test_an_entry_stands_for_one_upload_and_run(
    database: Database, entry: dict[str, Any], current: bool
) -> None:
    await put(database, **entry)
    assert await repo.is_current(database, "org", NAME, "m", 1) is current


@pytest.mark.parametrize(
    ("entry", "labelled"),
    [({}, True), ({"name": OTHER}, False), ({"marker": "n"}, False), ({"status": "failed"}, False)],
)
async def test_a_label_is_that_of_one_upload_once_it_is_done(
    database: Database, entry: dict[str, Any], labelled: bool
) -> None:
    await put(database, **{"label": "TABBY", **entry})
    label = await repo.label_of(database, "org", NAME, "m")
    assert label == (("TABBY", 0.5, "model") if labelled else None)


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({}, True),
        ({"name": OTHER}, False),
        ({"marker": "mine"}, False),
        ({"event_time": 4}, False),
        ({"event_time": 6}, False),
    ],
)
async def test_another_upload_has_the_name(
    database: Database, entry: dict[str, Any], found: bool
) -> None:
    await put(database, **entry)
    assert await repo.has_other(database, "org", NAME, "mine", 4, 5) is found


async def test_a_page_begins_where_the_last_one_ended(database: Database) -> None:
    for name, time in (("a", 2), ("b", 2), ("c", 2), ("d", 1), ("e", 3)):
        await put(database, name, event_time=time)
    found = await lists.page(database, "org", LibraryFilter(), (2, "b"), 9)
    assert [entry.name for entry in found] == ["a", "d"]


async def test_each_label_once(database: Database) -> None:
    for name, label in (("a", "TABBY"), ("b", None), ("c", "DINGO"), ("d", "TABBY")):
        await put(database, name, label=label)
    await put(database, organization="else", label="LYNX")
    found = await lists.facets(database, "org", LibraryFilter())
    assert [one.label for one in found.labels] == ["TABBY", "DINGO"]


async def test_what_follows_a_place_and_the_months_there_are(database: Database) -> None:
    for name, time in (("a", 2), ("b", 2), ("c", 2), ("d", 1), ("e", 3), ("f", 4)):
        await put(database, name, event_time=time, label="TABBY" if name < "f" else None)
    await put(database, organization="else", event_time=9, label="TABBY")
    found = await lists.following(database, "org", LibraryFilter(), (2, "b"), 2)
    assert [entry.name for entry in found] == ["e", "c"]
    for label, count, newest in ((None, 6, 4), ("TABBY", 5, 3), ("LYNX", 0, None)):
        months = await lists.months(database, "org", label, 0, 9)
        assert [(one.begins, one.newest, one.entries) for one in months] == (
            [(0, newest, count)] if count else []
        )


async def test_still_to_come_is_what_has_no_entry_and_was_not_deleted_since(
    database: Database,
) -> None:
    await put(database, "entry")
    for name, time in (("deleted", 5), ("again", 4)):
        await bury(database, name, time)
    asked = dict.fromkeys(("entry", "deleted", "again", "new"), 5)
    assert await repo.still_to_come(database, "org", asked) == {"again", "new"}


async def test_a_row_is_changed_by_its_name_and_marker(database: Database) -> None:
    """A copy of an object has its marker, under another name."""
    async with database.transaction() as connection:
        for name in (OTHER, NAME):
            await put(connection, name, run=0)
        unit, other = Unit(connection, "org", 5), await of(connection, OTHER)
        assert [await repo.restart(unit, NAME, "m") for _ in range(2)] == [1, 2]
        await repo.move_time(unit, NAME, mark("m", 9))
        assert await of(connection, OTHER) == other
        [row] = (await of(connection, NAME))["uploads"]
        assert (row["run"], row["event_time"]) == (2, 9)
        await repo.restart(unit, NAME, "another")
        assert (await of(connection, NAME))["uploads"] == [row]


# What reconciling walks over


async def put_object(
    db: Database, name: str, marker: str | None = "m", organization: str = "org"
) -> None:
    await db.execute(
        "INSERT INTO objects VALUES ($4 || '/' || $1, $4, $1, $3, NULL, 1, '', $2, 'e', 1)",
        name,
        {"idempotencyKey": marker} if marker else {},
        name != "gone",
        organization,
    )


async def test_a_page_of_the_index(database: Database) -> None:
    """Of one organization, what is there, behind a name, in the order of its bytes."""
    names = ("B", "a", "b", "gone", "ä", "😀")
    for name in names:
        await put_object(database, name, None if name == "b" else "m")
    for organization in ("nor", "org-2", "org0"):
        await put_object(database, "c", organization=organization)
    page = await reconcile.indexed(database, "org", "", 9)
    assert list(page) == ["B", "a", "b", "ä", "😀"]
    assert (page["a"], page["b"].marker) == (Indexed("e", 1, "m", None, 1), None)
    assert list(await reconcile.indexed(database, "org", "a", 2)) == ["b", "ä"]


async def test_a_page_of_entries(database: Database) -> None:
    for name, status in (
        ("B", "done"), ("idle", "pending"), ("works", "pending"), ("ä", "done"), ("😀", "done"),
    ):  # fmt: skip
        await put(database, name, status=status)
    await put(database, "c", organization="org-2")
    await database.execute("SELECT job_enqueue('classification.run', 'org', '{}', 'org/works/m')")
    page = await reconcile.entered(database, "org", "", 9)
    assert {name: one.idle for name, one in page.items()} == {
        "B": False, "idle": True, "works": False, "ä": False, "😀": False
    }  # fmt: skip
    assert list(page) == ["B", "idle", "works", "ä", "😀"]
    assert list(await reconcile.entered(database, "org", "idle", 2)) == ["works", "ä"]


# What retention looks at


async def test_a_page_of_what_is_older(database: Database) -> None:
    """Of one organization, before a time, behind a place, the oldest first."""
    for name, event_time in (("b", 2), ("a", 2), ("old", 1), ("limit", 5), ("new", 6)):
        await put(database, name, event_time=event_time)
    await put(database, "other", event_time=1, organization="org-2")
    for name in ("a", "gone"):
        await put_object(database, name)
    page = await retention.older(database, "org", 5, (0, ""), 9)
    assert [(one.name, one.etag) for one in page] == [("old", None), ("a", "e"), ("b", None)]
    page = await retention.older(database, "org", 5, page[1].place, 9)
    assert [one.name for one in page] == ["b"]
    assert len(await retention.older(database, "org", 5, (0, ""), 2)) == 2


async def test_limits_are_an_organizations_own(database: Database) -> None:
    for organization in ("org", "org-2"):
        await database.execute("INSERT INTO organizations VALUES ($1, 0)", organization)
        async with database.transaction() as connection:
            await retention.put(Unit(connection, organization, 5), 9)
    for days in (7, 8, None, None):
        async with database.transaction() as connection:
            await retention.put(Unit(connection, "org", 5), days)
        expected = {"org-2": 9} if days is None else {"org": days, "org-2": 9}
        assert await retention.limits(database) == expected
    assert await retention.days_of(database, ["org", "org-2"]) == {"org-2": 9}
    assert await retention.days_of(database, ["org"]) == {}
