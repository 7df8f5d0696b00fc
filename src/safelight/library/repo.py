"""The uploads table, its tombstones, and the functions of sql/library.sql that change them."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from safelight.infra.db import Connection, Database, read
from safelight.infra.history import Line, to_json
from safelight.library.entry import Entry, RunState, Stamp, StoreNow, Tombstone
from safelight.objects.store import Place, Written


@dataclass(frozen=True, slots=True)
class Upload:
    """One entry of the library, as clients see it."""

    organization: str
    name: str
    event_time: int
    idempotency_key: str
    image_id: str | None
    mime_type: str | None
    width: int | None
    height: int | None
    size_bytes: int | None
    classification_status: RunState
    classification_label: str | None
    classification_score: float | None
    classification_model: str | None
    classified_at: int | None


@dataclass(frozen=True, slots=True)
class Present:
    """The object the index holds for a name."""

    now: StoreNow
    content_type: str
    size: int
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class Look:
    """What a decision about one name is made from."""

    entry: Entry | None
    tombstone: Tombstone | None
    present: Present | None
    run: RunState | None


@dataclass(frozen=True, slots=True)
class Filters:
    label: str | None = None
    query: str | None = None
    status: RunState | None = None


async def look(connection: Connection, organization: str, name: str) -> Look:
    """Takes the name's lock, then reads."""
    row = await connection.fetchrow(
        """
        SELECT (upload).event_time, (upload).sequencer, (upload).source, (upload).e_tag,
               (upload).idempotency_key, run_status,
               (tombstone).event_time AS buried_time, (tombstone).sequencer AS buried_sequencer,
               (tombstone).source AS buried_source,
               (object).etag, (object).content_type, (object).size, (object).metadata
        FROM library_look($1, $2)
        """,
        organization,
        name,
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return Look(_entry(row), _tombstone(row), _present(row), _run(row["run_status"]))


async def mark(
    connection: Connection,
    organization: str,
    name: str,
    entry: Entry,
    replaces: str | None,
    facts: dict[str, Any],
    words: list[str],
    now: int,
) -> tuple[int, int | None]:
    """The run that was started, and the replaced marker's that was stopped. `facts` are columns."""
    upload = {
        "organization": organization,
        "name": name,
        "event_time": entry.stamp.event_time,
        "sequencer": entry.stamp.sequencer,
        "source": entry.stamp.source,
        "e_tag": entry.etag,
        "idempotency_key": entry.idempotency_key,
        **facts,
    }
    row = await connection.fetchrow(
        "SELECT * FROM library_mark($1, $2, $3, $4)", upload, words, replaces, now
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return row["started"], row["stopped"]


async def restart(
    connection: Connection, organization: str, name: str, marker: str, now: int
) -> int:
    """A new run for the marker the row has already."""
    run: int = await connection.fetchval(
        """
        UPDATE uploads SET classification_status = 'pending',
               run = classification_start($1, $2, $3, $4)
        WHERE organization = $1 AND name = $2 AND idempotency_key = $3 RETURNING run
        """,
        organization,
        name,
        marker,
        now,
    )
    return run


async def move_time(connection: Connection, organization: str, name: str, entry: Entry) -> None:
    await connection.execute(
        """
        UPDATE uploads SET event_time = $3, sequencer = $4, source = $5, e_tag = $6
        WHERE organization = $1 AND name = $2
        """,
        organization,
        name,
        entry.stamp.event_time,
        entry.stamp.sequencer,
        entry.stamp.source,
        entry.etag,
    )


async def remove(
    connection: Connection, organization: str, name: str, stamp: Stamp, now: int
) -> int | None:
    """The row, if there is one; the tombstone in any case. Answers the run that was stopped."""
    stopped: int | None = await connection.fetchval(
        "SELECT library_remove($1, $2, $3, $4, $5, $6)",
        organization,
        name,
        stamp.event_time,
        stamp.sequencer,
        stamp.source,
        now,
    )
    return stopped


async def delete(
    connection: Connection, organization: str, name: str, place: Place, line: Line, now: int
) -> Written:
    """The last step of deleting a name: what is on its way to it will not become it."""
    row = await connection.fetchrow(
        "SELECT * FROM upload_delete($1, $2, $3, $4, $5)",
        organization,
        name,
        place is not Place.TELLING_BUCKET,
        to_json([line]),
        now,
    )
    assert row is not None  # noqa: S101 - a function's row
    return Written(row["event_id"], row["event_time"], row["job_id"])


async def find(db: Database, organization: str, name: str) -> Upload | None:
    row = await db.fetchrow(
        f"SELECT {_COLUMNS} FROM uploads WHERE organization = $1 AND name = $2", organization, name
    )
    return None if row is None else _upload(row)


async def page(
    db: Database, organization: str, filters: Filters, before: tuple[int, str] | None, limit: int
) -> list[Upload]:
    """Newest first; one row more than asked tells that there is more."""
    conditions, values = ["organization = $1"], [organization, limit + 1]
    for condition, value in (
        ("classification_label = ${}", filters.label),
        ("search @@ ${}::tsquery", filters.query),
        ("classification_status = ${}", filters.status),
    ):
        if value is not None:
            values.append(value)
            conditions.append(condition.format(len(values)))
    if before is not None:
        values += before
        conditions.append(f"(event_time, name) < (${len(values) - 1}, ${len(values)})")
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM uploads WHERE {' AND '.join(conditions)} "
        "ORDER BY event_time DESC, name DESC LIMIT $2",
        *values,
    )
    return [_upload(row) for row in rows]


async def was_ever_seen(db: Database, organization: str, name: str) -> bool:
    """An entry, an object, an upload under way, or a tombstone of that name."""
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (SELECT FROM uploads WHERE organization = $1 AND name = $2)
                OR EXISTS (SELECT FROM objects WHERE key = $1 || '/' || $2)
                OR EXISTS (SELECT FROM images WHERE organization = $1 AND name = $2)
                OR EXISTS (SELECT FROM tombstones WHERE organization = $1 AND name = $2)
            """,
            organization,
            name,
        )
    )


async def sweep_tombstones(db: Database, before: int) -> int:
    """Those that no event can be late for any more."""
    rows = await db.fetch("DELETE FROM tombstones WHERE buried_at < $1 RETURNING 1", before)
    return len(rows)


_COLUMNS = ", ".join(Upload.__dataclass_fields__)


def _upload(row: asyncpg.Record) -> Upload:
    values = dict(row)
    values["classification_status"] = RunState(values["classification_status"])
    return Upload(**values)


def _entry(row: asyncpg.Record) -> Entry | None:
    if row["idempotency_key"] is None:
        return None
    stamp = Stamp(row["event_time"], row["sequencer"], row["source"])
    return Entry(stamp, row["idempotency_key"], row["e_tag"])


def _tombstone(row: asyncpg.Record) -> Tombstone | None:
    if row["buried_time"] is None:
        return None
    return Tombstone(Stamp(row["buried_time"], row["buried_sequencer"], row["buried_source"]))


def _present(row: asyncpg.Record) -> Present | None:
    if row["etag"] is None:
        return None
    metadata = dict(row["metadata"])
    now = StoreNow(row["etag"], metadata.get("idempotencyKey"))
    return Present(now, row["content_type"], row["size"], metadata)


def _run(status: str | None) -> RunState | None:
    """A run that was dropped is as good as none."""
    return RunState(status) if status in set(RunState) else None


@read
async def label_of(
    db: Database, organization: str, name: str, marker: str
) -> tuple[str, float, str] | None:
    """What the classifier has said of this very upload: label, score, model."""
    row = await db.fetchrow(
        "SELECT classification_label, classification_score, classification_model FROM uploads "
        "WHERE organization = $1 AND name = $2 AND idempotency_key = $3 "
        "AND classification_status = 'done'",
        organization,
        name,
        marker,
    )
    return None if row is None else tuple(row)


@read
async def has_other(
    db: Database, organization: str, name: str, marker: str, since: int, until: int
) -> bool:
    """Whether another upload has had the name, from after one moment up to another."""
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM uploads WHERE organization = $1 AND name = $2
                  AND idempotency_key <> $3 AND event_time > $4 AND event_time <= $5)
            """,
            organization,
            name,
            marker,
            since,
            until,
        )
    )
