"""What the statements of objects touch and what they leave alone: rows that differ in one thing."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holding import until_waiting, waits
from safelight.infra.db import Database
from safelight.objects import repo
from safelight.objects.events import Action, ObjectEvent
from safelight.objects.store import Cleared, Facts, Landed, Place, Unsettled

BLOB, OTHER = 64 * "a", 64 * "b"
KEY = "acme/a"


async def put(db: Database, key: str = KEY, **columns: Any) -> None:
    row = {"organization": key.partition("/")[0], "present": True, "etag": "e", **columns}
    await db.execute(
        "INSERT INTO objects VALUES ($1, $2, $3, $4, $5, 1, 'image/jpeg', $6, $7, $8)",
        key,
        row["organization"],
        key.partition("/")[2],
        row["present"],
        row.get("blob"),
        row.get("metadata", {}),
        row["etag"],
        row.get("event_time", 1),
    )


async def put_blob(db: Database, sha256: str = BLOB, **columns: Any) -> None:
    await db.execute(
        "INSERT INTO blobs (sha256, size, state, released_at) VALUES ($1, 1, $2, $3)",
        sha256,
        columns.get("state", "live"),
        columns.get("released_at"),
    )


async def put_event(db: Database, **columns: Any) -> ObjectEvent:
    row = {"action": Action.CREATED, "key": KEY, "event_time": 5, "marker": "m", **columns}
    event_id: int = await db.fetchval(
        "INSERT INTO object_events (source, action, key, organization, event_time, metadata, "
        "received_at, delivered_at) VALUES ('safelight', $1, $2, 'acme', $3, $4, $5, $6) "
        "RETURNING id",
        row["action"],
        row["key"],
        row["event_time"],
        {"idempotencyKey": row["marker"]},
        row.get("received_at", 1),
        row.get("delivered_at"),
    )
    event = await repo.event(db, event_id)
    assert event
    return event


async def keys(db: Database) -> list[str]:
    return [row["key"] for row in await db.fetch("SELECT key FROM objects ORDER BY key")]


# Objects


async def test_what_is_deleted_is_not_there(database: Database) -> None:
    await put(database, present=False)
    assert await repo.find(database, KEY) is None
    assert await repo.listed(database, "", "", 9) == []
    assert await repo.in_bucket(database, 9) == []
    assert await database.fetch("SELECT * FROM objects_after('', 9)") == []


async def test_a_listing_is_of_one_prefix_and_goes_on_after_a_key(database: Database) -> None:
    for key in ("acmd/z", "acme/a", "acme/b", "acme/c", "acmf/a"):
        await put(database, key)
    found = [await repo.listed(database, "acme/", after, 9) for after in ("", "acme/a")]
    assert [[item.key[-1] for item in page] for page in found] == [["a", "b", "c"], ["b", "c"]]
    assert len(await repo.listed(database, "", "", 9)) == 5


async def test_objects_of_organizations_alone_are_walked(database: Database) -> None:
    await put(database, "pins/1", organization=None)
    await put(database)
    rows = await database.fetch("SELECT key FROM objects_after('', 9)")
    assert [row["key"] for row in rows] == [KEY]


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("acme/a", [-3, -5]),  # what an upload brings was charged as it was accepted
        ("submissions/1", [3, -3, 5, -5]),
        ("renditions/1", [3, -3, 5, -5]),
        ("artifacts/1", []),  # counted with its row
        ("submissionsx/1", [-3, -5]),  # somebody's upload
    ],
)
async def test_what_is_counted_of_an_object(
    database: Database, key: str, changes: list[int]
) -> None:
    facts = Facts("image/jpeg", {"organizationId": "acme"})
    for size in (3, 5):
        await repo.put(database, key, Landed(Place.BUCKET, "e", size, ""), facts, 1)
    for _ in range(2):
        await repo.delete(database, key, Cleared(Place.BUCKET), 1)
    rows = await database.fetch("SELECT organization, bytes FROM quota_changes ORDER BY id")
    assert [row["bytes"] for row in rows] == changes
    assert {row["organization"] for row in rows} <= {"acme", key.partition("/")[0]}


async def test_what_names_no_organization_counts_for_none(database: Database) -> None:
    landed = Landed(Place.BUCKET, "e", 3, "")
    await repo.put(database, "renditions/1", landed, Facts("image/jpeg"), 1)
    await repo.delete(database, "renditions/1", Cleared(Place.BUCKET), 1)
    assert await database.fetchval("SELECT count(*) FROM quota_changes") == 0


@pytest.mark.parametrize(
    ("organization", "metadata", "whose"),
    [("acme", {"organizationId": "x"}, "acme"), (None, {"organizationId": "acme"}, "acme"),
     (None, {}, None)],
)  # fmt: skip
async def test_a_second_key_counts_for_whose_the_first_is(
    database: Database, organization: str | None, metadata: dict[str, str], whose: str | None
) -> None:
    await put_blob(database)
    await put(database, blob=BLOB, organization=organization, metadata=metadata)
    async with database.transaction() as connection:
        assert await repo.share(connection, KEY, "e", "submissions/1", 1) == BLOB
    assert await database.fetchval("SELECT organization FROM quota_changes") == whose
    await repo.delete(database, "submissions/1", Cleared(Place.BLOB), 2)
    assert not await database.fetchval("SELECT sum(bytes) FROM quota_changes")


async def test_a_bucket_holds_what_is_no_blob(database: Database) -> None:
    await put_blob(database)
    await put(database, "acme/blob", blob=BLOB)
    await put(database, "acme/bucket")
    assert await repo.in_bucket(database, 9) == ["acme/bucket"]


async def test_what_is_long_gone_and_long_delivered_is_forgotten(database: Database) -> None:
    await put(database, "acme/gone", present=False, event_time=4)
    await put(database, "acme/young", present=False, event_time=5)
    await put(database, "acme/there", event_time=4)
    await put_event(database, received_at=4, delivered_at=9)
    kept = [
        await put_event(database, received_at=5, delivered_at=9),
        await put_event(database, received_at=4),
    ]
    await repo.purge_deleted(database, 5)
    assert await keys(database) == ["acme/there", "acme/young"]
    rows = await database.fetch("SELECT id FROM object_events ORDER BY id")
    assert [row["id"] for row in rows] == [event.id for event in kept]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({}, True),
        ({"key": "acme/b"}, False),
        ({"action": Action.DELETED}, False),
        ({"event_time": 3}, False),
        ({"event_time": 6}, False),
        ({"marker": "mine"}, False),
    ],
)
async def test_another_upload_created_the_key_meanwhile(
    database: Database, other: dict[str, Any], found: bool
) -> None:
    await put_event(database, **{"event_time": 4, **other})
    mine = await put_event(database, marker="mine")
    assert await repo.created_other(database, mine, "mine", 3) is found
    await database.execute(
        "INSERT INTO object_events (source, action, key, event_time, received_at) "
        "SELECT 'safelight', 'deleted', 'acme/c', 5, 1 FROM generate_series(1, 5000)"
    )
    later = await put_event(database, marker="mine")
    assert not await repo.created_other(database, later, "mine", 3)


@pytest.mark.parametrize(
    ("seen", "state", "pinned"),
    [
        ({}, "live", True),
        ({}, "damaged", True),
        ({}, "condemned", False),
        ({"etag": "new"}, "live", False),
        ({"present": False}, "live", False),
    ],
)
async def test_bytes_are_shared_of_the_object_that_was_seen(
    database: Database, seen: dict[str, Any], state: str, pinned: bool
) -> None:
    await put_blob(database, state=state)
    await put(database, blob=BLOB, **seen)
    async with database.transaction() as connection:
        checksum = await repo.share(connection, KEY, "e", "pins/1", 1)
    assert checksum == (BLOB if pinned else None)
    assert await keys(database) == ([KEY, "pins/1"] if pinned else [KEY])


async def test_bytes_that_are_being_condemned_are_not_shared(database: Database) -> None:
    await put_blob(database, released_at=1)
    await put(database, blob=BLOB)
    async with database.transaction() as connection:
        async with database.transaction() as condemning:
            await condemning.execute("SELECT FROM blobs FOR UPDATE")
            await condemning.execute("UPDATE blobs SET state = 'condemned'")
            sharing = asyncio.create_task(repo.share(connection, KEY, "e", "pins/1", 1))
            await until_waiting(database, 1)
        assert await sharing is None


@pytest.mark.parametrize("present", [True, False])
async def test_what_was_mended_is_the_image_that_the_index_says(
    database: Database, present: bool
) -> None:
    await put(database, metadata={"imageId": "i"}, present=present)
    for image in ("other", "i"):
        await repo.mended(database, Action.CREATED, KEY, image, f"of {image}", None)
        etag = await database.fetchval("SELECT etag FROM objects")
        assert etag == ("of i" if present and image == "i" else "e")


# Tickets


async def issue(db: Database, key: str = KEY) -> int:
    return await repo.issue_ticket(db, Action.CREATED, key, 1, timedelta(minutes=10))


@pytest.mark.parametrize(
    ("certain", "beside", "open_ones", "settled"),
    [(True, False, 0, 0), (True, True, 2, 0), (False, False, 1, 1), (False, True, 2, 0)],
)
async def test_a_ticket_goes_if_it_was_alone_and_what_it_wrote_is_certain(
    database: Database, certain: bool, beside: bool, open_ones: int, settled: int
) -> None:
    """Otherwise it is due at once, and settled as soon as all of its key are."""
    await issue(database, "acme/b")
    if beside:
        await issue(database)
    ticket = await issue(database)
    await database.execute("SELECT ticket_end($1, 'created', $2, $3)", ticket, KEY, certain)
    left = await repo.unsettled(database, KEY)
    assert len(left.tickets) == open_ones
    assert await database.fetchval("SELECT count(*) FROM jobs") == settled
    assert await repo.due_keys(database, 9) == ([KEY] if settled else [])


async def test_a_ticket_that_somebody_ended_is_there_again(database: Database) -> None:
    await database.execute("SELECT ticket_end(NULL, 'created', $1, true)", KEY)
    assert await repo.due_keys(database, 9) == []
    await database.execute("SELECT ticket_end(1000000, 'created', $1, true)", KEY)
    assert await repo.due_keys(database, 9) == [KEY]


async def test_a_key_is_held_as_it_was_seen(database: Database) -> None:
    await put(database)
    await issue(database)
    seen = await repo.unsettled(database, KEY)

    async def held() -> bool:
        async with database.transaction() as connection:
            return await repo.hold(connection, seen)

    assert await held()
    async with database.transaction() as other:
        await other.execute("SELECT object_lock($1)", KEY)
        assert not await held()
    await database.execute("UPDATE objects SET event_time = 2")
    assert not await held()
    await database.execute("UPDATE objects SET event_time = 1")
    await issue(database, "acme/b")
    assert await held()
    await issue(database)
    assert not await held()


async def test_a_mending_waits_for_whoever_changes_the_object(database: Database) -> None:
    assert await waits(
        database,
        lambda c: c.execute("SELECT object_lock($1)", KEY),
        lambda c: repo.mended(c, Action.DELETED, KEY, None, "", None),
    )


# Blobs


async def test_condemned_is_what_nothing_refers_to(database: Database) -> None:
    for sha256 in (BLOB, OTHER):
        await put_blob(database, sha256, released_at=1)
    await put(database, blob=BLOB)
    assert await repo.condemn(database, 5, 9) == 1
    assert await repo.condemned_in(database, "bb", 9) == [OTHER]
    await database.execute("UPDATE blobs SET state = 'condemned'")
    assert await repo.condemned_in(database, "aa", 9) == []
    assert await repo.condemned_in(database, "bb", 9) == [OTHER]


async def test_a_blob_that_somebody_has_is_not_waited_for(database: Database) -> None:
    """Whoever locks it is about to refer to it."""
    await put_blob(database, released_at=1)
    locked = "SELECT FROM blobs FOR UPDATE"
    assert not await waits(database, lambda c: c.execute(locked), lambda c: repo.condemn(c, 5, 9))
    assert await repo.condemned_shards(database) == []


async def test_a_put_takes_blobs_in_the_order_of_their_names(database: Database) -> None:
    """Whichever of them it gives up: or two that swap theirs would wait for each other in a ring."""
    for sha256 in (BLOB, OTHER):
        await put_blob(database, sha256)
    await put(database, blob=OTHER)
    landed = Landed(Place.BLOB, BLOB, 1, BLOB, written=True)
    lock = "SELECT FROM blobs WHERE sha256 = $1 FOR UPDATE NOWAIT"
    async with database.transaction() as holding:
        await holding.execute(lock, BLOB)
        putting = asyncio.create_task(repo.put(database, KEY, landed, Facts("image/jpeg"), 1))
        await until_waiting(database, 1)
        async with database.transaction() as looking:
            await looking.execute(lock, OTHER)
    await putting


async def test_an_epoch_begins_after_every_put_that_is_ending(database: Database) -> None:
    async with database.transaction() as putting:
        await putting.execute("SELECT shard_lock_shared('aa')")
        beginning = asyncio.create_task(repo.next_epoch(database, "aa"))
        await until_waiting(database, 1)
        assert await repo.epoch(database, "aa") == 0
    await beginning
    assert await repo.epoch(database, "aa") == 1


async def test_a_condemned_blob_is_deleted_and_passed_over(database: Database) -> None:
    await put_blob(database, state="condemned")
    await put_blob(database, OTHER)
    assert [blob.sha256 for blob in await repo.blobs_after(database, "", 9)] == [OTHER]
    await repo.delete_blobs(database, [BLOB, OTHER])
    assert await repo.known(database, [BLOB, OTHER]) == {OTHER}


async def test_a_blob_is_locked_as_it_was_seen(database: Database) -> None:
    await put_blob(database)
    version = await repo.blob_version(database, BLOB)
    assert await waits(
        database,
        lambda c: repo.lock_blob(c, BLOB, version),
        lambda c: repo.lock_blob(c, BLOB, version),
    )
    async with database.transaction() as connection:
        assert await repo.lock_blob(connection, BLOB, version)
        assert await repo.lock_blob(connection, BLOB, "1") is None
        await repo.set_blob_state(connection, BLOB, "condemned")
    version = await repo.blob_version(database, BLOB)
    async with database.transaction() as connection:
        assert await repo.lock_blob(connection, BLOB, version) is None


async def test_a_blob_has_the_names_of_uploads(database: Database) -> None:
    await put_blob(database)
    await put(database, blob=BLOB)
    await put(database, "pins/1", organization=None, blob=BLOB)
    async with database.transaction() as connection:
        assert await repo.names_of(connection, BLOB) == [("acme", "a")]


@pytest.mark.parametrize(
    ("present", "on_its_way", "ended"),
    [(True, False, {"ended": "object"}), (True, True, {"ended": "object"}),
     (False, True, {"ended": "upload"}), (False, False, {})],
)  # fmt: skip
async def test_a_delete_says_what_it_ended(
    database: Database, present: bool, on_its_way: bool, ended: dict[str, str]
) -> None:
    end = "SELECT * FROM object_end('acme/ended.jpg', 'acme', 'ended.jpg', true, $1, $2)"
    if present:
        await database.execute(
            "SELECT object_put('acme/ended.jpg', 'acme', 'ended.jpg', NULL, 0, false, 1, "
            "'image/jpeg', '{}', 'e', false, 1)"
        )
    else:
        await database.execute(end, False, 1)
    event = (await database.fetchrow(end, on_its_way, 2))["event_id"]  # type: ignore[index]  # a row
    metadata = "SELECT metadata FROM object_events WHERE id = $1"
    assert await database.fetchval(metadata, event) == ended


@pytest.mark.parametrize(
    ("columns", "aged"),
    [
        ({}, True), ({"event_time": 5}, False), ({"event_time": 6}, False), ({"etag": "f"}, False),
        ({"present": False}, False), ({"key": "acme/b"}, False),
    ],
)  # fmt: skip
async def test_what_is_aged(database: Database, columns: dict[str, Any], aged: bool) -> None:
    """That object of that key, there and put before that time."""
    await put(database, **columns)
    assert await database.fetchval("SELECT object_aged($1, 'e', 5)", KEY) is aged


async def test_a_write_besides_ones_own(database: Database) -> None:
    asked = "SELECT object_written($1, $2)"
    mine = await repo.issue_ticket(database, Action.DELETED, KEY, 1, timedelta(minutes=1))
    await repo.issue_ticket(database, Action.CREATED, "acme/b", 1, timedelta(minutes=1))
    assert await database.fetchval(asked, KEY, mine) is False
    other = await repo.issue_ticket(database, Action.CREATED, KEY, 1, timedelta(minutes=1))
    assert await database.fetchval(asked, KEY, mine) is True
    await repo.redeem(database, [other])
    assert await database.fetchval(asked, KEY, mine) is False


async def test_a_key_without_tickets_is_seen_too(database: Database) -> None:
    assert await repo.unsettled(database, KEY) == Unsettled(KEY, (), None, None)
    await put(database, present=False)
    assert await repo.unsettled(database, KEY) == Unsettled(KEY, (), 1, None)
    await put(database, "acme/b")
    seen = await repo.unsettled(database, "acme/b")
    assert (seen.tickets, seen.last, seen.indexed and seen.indexed.etag) == ((), 1, "e")
