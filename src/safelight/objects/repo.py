"""The tables of objects, events and blobs. The functions are in sql/objects.sql."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from safelight.infra.db import UPKEEP_SECONDS, Connection, Database, read, write
from safelight.objects.events import Action, ObjectEvent
from safelight.objects.keys import owner_of
from safelight.objects.store import (
    Blob,
    Cleared,
    Facts,
    Landed,
    Listed,
    ObjectInfo,
    Place,
    Retake,
    Ticket,
    Unsettled,
    Written,
)

_RETAKE = "SL001"


# Objects


@write
async def put(
    db: Database | Connection, key: str, landed: Landed, facts: Facts, now: int
) -> Written:
    organization, name = owner_of(key)
    try:
        row = await db.fetchrow(
            "SELECT * FROM object_landed($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            key,
            organization,
            name,
            landed.sha256 if landed.place is Place.BLOB else None,
            landed.epoch,
            landed.written,
            landed.size,
            facts.content_type,
            dict(facts.metadata),
            landed.etag,
            landed.place is not Place.TELLING_BUCKET,
            landed.ticket,
            now,
        )
    except asyncpg.PostgresError as error:
        raise_retake(error)
        raise
    return _written(row)


@write
async def delete(db: Database | Connection, key: str, cleared: Cleared, now: int) -> Written:
    tell = cleared.place is not Place.TELLING_BUCKET
    row = await db.fetchrow(
        "SELECT * FROM object_cleared($1, $2, $3, $4, $5, $6)",
        key,
        *owner_of(key),
        tell,
        cleared.ticket,
        now,
    )
    return _written(row)


@write
async def share(connection: Connection, key: str, etag: str, as_key: str, now: int) -> str | None:
    """Pins bytes of the built-in store under a key of ours; their sha256, if that is possible."""
    checksum: str | None = await connection.fetchval(
        "SELECT object_share($1, $2, $3, $4)", key, etag, as_key, now
    )
    return checksum


@read
async def find(db: Database | Connection, key: str) -> tuple[ObjectInfo, str | None] | None:
    """The object and its blob, if it is in the index and present."""
    row = await db.fetchrow(
        "SELECT key, size, content_type, metadata, etag, event_time, blob FROM objects "
        "WHERE key = $1 AND present",
        key,
    )
    if row is None:
        return None
    *info, blob = row.values()
    return ObjectInfo(*info), blob


@read
async def listed(db: Database, prefix: str, after: str, limit: int) -> list[Listed]:
    rows = await db.fetch(
        "SELECT key, size, etag, event_time FROM objects "
        "WHERE key > $1 AND key >= $2 AND ($3::text IS NULL OR key < $3) AND present "
        "ORDER BY key LIMIT $4",
        after,
        prefix,
        _beyond(prefix),
        limit,
    )
    return [Listed(*row.values()) for row in rows]


@write
async def purge_deleted(db: Database, before: int) -> None:
    """Drops index rows of objects long gone, and events long delivered, of the present stretch."""
    await db.execute(
        """
        WITH gone AS (DELETE FROM objects WHERE NOT present AND event_time < $1)
        DELETE FROM object_events WHERE id IN (
            SELECT id FROM object_events WHERE delivered_at IS NOT NULL AND received_at < $1
                AND id >= (SELECT stretch_of('object_events_id_seq') * stretch_size())
            ORDER BY id LIMIT 10000)
        """,
        before,
        timeout=UPKEEP_SECONDS,
    )


# Events


@read
async def event(db: Database | Connection, event_id: int) -> ObjectEvent | None:
    row = await db.fetchrow(
        "SELECT id, source, action, key, organization, event_time, sequencer, etag, size, metadata "
        "FROM object_events WHERE id = $1",
        event_id,
    )
    if row is None:
        return None
    values = dict(row)
    return ObjectEvent(**{**values, "action": Action(values["action"])})


@read
async def created_other(db: Database, before: ObjectEvent, marker: str, since: int) -> bool:
    """Whether, among the few thousand events up to this one, its key was created by another upload
    after that moment."""
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM (
                    SELECT * FROM object_events WHERE id <= $1 ORDER BY id DESC LIMIT 5000
                ) AS few WHERE key = $2 AND action = 'created'
                  AND event_time > $3 AND event_time <= $4
                  AND metadata ->> 'idempotencyKey' IS DISTINCT FROM $5)
            """,
            before.id,
            before.key,
            since,
            before.event_time,
            marker,
        )
    )


@write
async def delivered(connection: Connection, event_id: int, now: int) -> None:
    await connection.execute(
        "UPDATE object_events SET delivered_at = $2 WHERE id = $1", event_id, now
    )


# Writes to a bucket


@write
async def issue_ticket(
    db: Database,
    action: Action,
    key: str,
    now: int,
    patience: timedelta,
    as_of: Unsettled | None = None,
) -> int:
    """`patience`: how long a request of this write can still be applied. `as_of`: what the key was
    when this write was decided about; otherwise what it is."""
    ticket: int = await db.fetchval(
        "INSERT INTO object_outbox (action, key, begun_at, seen, due) SELECT $1, $2, $3, "
        "CASE WHEN $5 THEN $6 ELSE (SELECT event_time FROM objects WHERE key = $2) END, "
        "clock_timestamp() + $4 RETURNING id",
        action, key, now, patience, as_of is not None, as_of.last if as_of else None,
    )  # fmt: skip
    return ticket


@read
async def due_keys(db: Database, limit: int) -> list[str]:
    rows = await db.fetch("SELECT * FROM tickets_due($1)", limit)
    return [row[0] for row in rows]


@read
async def unsettled(db: Database, key: str) -> Unsettled:
    """A key's open tickets, which may be none, and what the index says, at one moment."""
    rows = await db.fetch(
        "SELECT ticket.id, ticket.action, ticket.seen, object.event_time AS last, present, size, "
        "content_type, metadata, etag FROM (SELECT $1::text AS key) AS asked "
        "LEFT JOIN object_outbox AS ticket USING (key) LEFT JOIN objects AS object USING (key) "
        "ORDER BY ticket.id",
        key,
    )
    row = rows[0]
    tickets = tuple(
        Ticket(each["id"], Action(each["action"]), each["seen"]) for each in rows if each["id"]
    )
    if not row["present"]:
        return Unsettled(key, tickets, row["last"], None)
    facts = (row["size"], row["content_type"], row["metadata"], row["etag"], row["last"])
    return Unsettled(key, tickets, row["last"], ObjectInfo(key, *facts))


@read
async def hold(connection: Connection, seen: Unsettled) -> bool:
    """True: the key is as it was seen, and stays so until the transaction ends."""
    return bool(
        await connection.fetchval("SELECT tickets_hold($1, $2, $3)", seen.key, seen.ids, seen.last)
    )


@write
async def redeem(db: Database | Connection, tickets: Sequence[int]) -> None:
    """Bucket and index are known to agree, under the key's lock; or nothing was sent with it."""
    await db.execute("DELETE FROM object_outbox WHERE id = ANY ($1)", tickets)


@write
async def put_off(db: Database, seen: Unsettled, wait: timedelta) -> None:
    """Somebody else will answer for the key; looks again after a while."""
    await db.execute(
        "UPDATE object_outbox SET due = greatest(due, clock_timestamp() + $2) WHERE id = ANY ($1)",
        seen.ids,
        wait,
    )


@write
async def mended(
    db: Database, action: Action, key: str, image: str | None, etag: str, ticket: int | None
) -> None:
    """The bucket was brought back to what the index says; `image` is whose bytes it was given."""
    await db.execute("SELECT object_mended($1, $2, $3, $4, $5)", key, action, image, etag, ticket)


@read
async def in_bucket(db: Database, limit: int) -> list[str]:
    """Some keys that a bucket should hold."""
    rows = await db.fetch(
        "SELECT key FROM objects WHERE present AND blob IS NULL ORDER BY key LIMIT $1", limit
    )
    return [row["key"] for row in rows]


# Blobs


@read
async def epoch(db: Database, shard: str) -> int:
    value: int = await db.fetchval("SELECT epoch FROM blob_epochs WHERE shard = $1", shard)
    return value


@write
async def next_epoch(db: Database, shard: str) -> None:
    """From its commit on, no put that looked at this shard's files before can still end."""
    async with db.transaction() as connection:
        await connection.execute("SELECT shard_lock($1)", shard)
        await connection.execute("UPDATE blob_epochs SET epoch = epoch + 1 WHERE shard = $1", shard)


@write
async def condemn(db: Database, before: int, limit: int) -> int:
    """How many blobs, released before then and not referred to, are given up."""
    count: int = await db.fetchval("SELECT blobs_condemn($1, $2)", before, limit)
    return count


@read
async def condemned_shards(db: Database) -> list[str]:
    rows = await db.fetch(
        "SELECT DISTINCT left(sha256, 2) AS shard FROM blobs WHERE state = 'condemned' ORDER BY 1"
    )
    return [row["shard"] for row in rows]


@read
async def condemned_in(db: Database, shard: str, limit: int) -> list[str]:
    """References are asked about once more: they cannot exist, and a file is at stake."""
    rows = await db.fetch(
        "SELECT sha256 FROM blobs WHERE state = 'condemned' AND left(sha256, 2) = $1 "
        "AND NOT EXISTS (SELECT FROM objects WHERE blob = sha256) LIMIT $2",
        shard,
        limit,
    )
    return [row["sha256"] for row in rows]


@write
async def delete_blobs(db: Database, blobs: Sequence[str]) -> None:
    await db.execute("DELETE FROM blobs WHERE sha256 = ANY ($1) AND state = 'condemned'", blobs)


@read
async def known(db: Database, names: Sequence[str]) -> set[str]:
    rows = await db.fetch("SELECT sha256 FROM blobs WHERE sha256 = ANY ($1)", names)
    return {row["sha256"] for row in rows}


@read
async def blobs_after(db: Database, position: str, limit: int) -> list[Blob]:
    rows = await db.fetch(
        "SELECT sha256, size, state FROM blobs WHERE sha256 > $1 AND state <> 'condemned' "
        "ORDER BY sha256 LIMIT $2",
        position,
        limit,
    )
    return [Blob(*row.values()) for row in rows]


@read
async def blob_version(db: Database, sha256: str) -> str | None:
    """Changes with every write to the row."""
    version: str | None = await db.fetchval(
        "SELECT xmin::text FROM blobs WHERE sha256 = $1", sha256
    )
    return version


@read
async def lock_blob(connection: Connection, sha256: str, version: str | None) -> Blob | None:
    """None: it is condemned, gone, or not as it was."""
    row = await connection.fetchrow(
        "SELECT sha256, size, state FROM blobs WHERE sha256 = $1 AND state <> 'condemned' "
        "AND xmin::text = $2 FOR UPDATE",
        sha256,
        version,
    )
    return None if row is None else Blob(*row.values())


@write
async def set_blob_state(connection: Connection, sha256: str, state: str) -> None:
    await connection.execute("UPDATE blobs SET state = $2 WHERE sha256 = $1", sha256, state)


@read
async def count_damaged(db: Database) -> int:
    count: int = await db.fetchval("SELECT count(*) FROM blobs WHERE state = 'damaged'")
    return count


@read
async def names_of(connection: Connection, sha256: str) -> list[tuple[str, str]]:
    """Organization and name of the uploads whose bytes these are."""
    rows = await connection.fetch(
        "SELECT organization, name FROM objects "
        "WHERE blob = $1 AND organization IS NOT NULL ORDER BY organization, name",
        sha256,
    )
    return [(row["organization"], row["name"]) for row in rows]


@read
async def walk_of(db: Database, name: str) -> tuple[str, int] | None:
    """Where a walk over the blobs goes on, and when this round began."""
    row = await db.fetchrow("SELECT position, begun_at FROM blob_walks WHERE name = $1", name)
    return None if row is None else (row["position"], row["begun_at"])


@write
async def set_walk(db: Database, name: str, position: str, begun_at: int) -> None:
    await db.execute(
        "INSERT INTO blob_walks (name, position, begun_at) VALUES ($1, $2, $3) ON CONFLICT (name) "
        "DO UPDATE SET position = excluded.position, begun_at = excluded.begun_at",
        name, position, begun_at,
    )  # fmt: skip


def raise_retake(error: asyncpg.PostgresError) -> None:
    """If that is what it says."""
    if error.sqlstate == _RETAKE:
        raise Retake from error


def _written(row: Any) -> Written:
    return Written(row["event_id"], row["event_time"], row["job_id"])


def _beyond(prefix: str) -> str | None:
    """The first text after everything that begins with the prefix, which ends with a slash."""
    return prefix[:-1] + chr(ord("/") + 1) if prefix else None
