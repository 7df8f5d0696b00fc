"""The uploads table, its tombstones, and the functions of sql/library.sql that change them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from safelight.infra.activity import Unit, to_json
from safelight.infra.db import AWAY, UPKEEP_SECONDS, Database, read, write
from safelight.infra.history import Line
from safelight.library.entry import Entry, RunStatus
from safelight.library.order import Arrived, Mark, Present, Snapshot, Stamp, Tombstone
from safelight.objects.keys import words
from safelight.objects.repo import raise_retake
from safelight.objects.store import Cleared, Place, Written

# What an event changes, in the unit of its delivery


@read
async def look(unit: Unit, name: str) -> Snapshot:
    """Takes the name's lock, then reads."""
    row = await unit.connection.fetchrow(
        """
        SELECT (upload).event_time, (upload).sequencer, (upload).source, (upload).e_tag,
               (upload).idempotency_key, (upload).run, (upload).classification_status, run_status,
               (tombstone).event_time AS buried_time, (tombstone).sequencer AS buried_sequencer,
               (tombstone).source AS buried_source,
               (object).etag, (object).content_type, (object).size, (object).metadata
        FROM library_look($1, $2)
        """,
        unit.organization,
        name,
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return Snapshot(
        _mark(row),
        _tombstone(row),
        _present(row),
        _status(row["run_status"]),
        _status(row["classification_status"]),
        row["run"],
    )


@write
async def mark(
    unit: Unit, name: str, mark: Mark, replaces: Mark | None, facts: dict[str, Any]
) -> tuple[int, int | None]:
    """The run that was started, and the replaced marker's that was stopped. `facts` are columns."""
    upload = {
        "organization": unit.organization,
        "name": name,
        "event_time": mark.stamp.event_time,
        "sequencer": mark.stamp.sequencer,
        "source": mark.stamp.source,
        "e_tag": mark.etag,
        "idempotency_key": mark.idempotency_key,
        **facts,
    }
    row = await unit.connection.fetchrow(
        "SELECT * FROM library_mark($1, $2, $3, $4)",
        upload,
        words(name),
        replaces and replaces.idempotency_key,
        unit.now,
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return row["started"], row["stopped"]


@write
async def arrive(
    db: Database,
    organization: str,
    rows: Sequence[Mapping[str, Any]],
    may_come_from: Sequence[str],
    now: int,
    owner: str,
    lease: timedelta,
) -> list[Arrived]:
    """Uploads on the short road, all in one statement, which is a unit of work. One that is refused
    by itself is for the general road to judge."""
    try:
        found = await db.fetch(
            "SELECT * FROM uploads_arrived($1, $2, $3, $4, $5, $6)",
            organization, rows, may_come_from, now, owner, lease,
        )  # fmt: skip
    except AWAY:
        raise
    except asyncpg.PostgresError as error:
        raise_retake(error)
        if len(rows) > 1:
            raise
        return [Arrived(taken=False)]
    return [Arrived(row["outcome"] == "stored", row["job_id"]) for row in found]


@write
async def restart(unit: Unit, name: str, marker: str) -> int:
    """A new run for the marker the row has already."""
    run: int = await unit.connection.fetchval(
        """
        UPDATE uploads SET classification_status = 'pending',
               run = classification_start($1, $2, $3, $4)
        WHERE organization = $1 AND name = $2 AND idempotency_key = $3 RETURNING run
        """,
        unit.organization,
        name,
        marker,
        unit.now,
    )
    return run


@write
async def move_time(unit: Unit, name: str, mark: Mark) -> None:
    await unit.connection.execute(
        """
        UPDATE uploads SET event_time = $3, sequencer = $4, source = $5, e_tag = $6
        WHERE organization = $1 AND name = $2
        """,
        unit.organization,
        name,
        mark.stamp.event_time,
        mark.stamp.sequencer,
        mark.stamp.source,
        mark.etag,
    )


@write
async def remove(unit: Unit, name: str, tombstone: Tombstone) -> int | None:
    """The row, if there is one; the tombstone in any case. Answers the run that was stopped."""
    stamp = tombstone.stamp
    stopped: int | None = await unit.connection.fetchval(
        "SELECT library_remove($1, $2, $3, $4, $5, $6)",
        unit.organization,
        name,
        stamp.event_time,
        stamp.sequencer,
        stamp.source,
        unit.now,
    )
    return stopped


@write
async def delete(
    db: Database, organization: str, name: str, cleared: Cleared, line: Line, now: int
) -> Written:
    """The last step of deleting a name: what is on its way to it will not become it."""
    row = await db.fetchrow(
        "SELECT * FROM upload_cleared($1, $2, $3, $4, $5, $6)",
        organization,
        name,
        cleared.place is not Place.TELLING_BUCKET,
        cleared.ticket,
        to_json([line]),
        now,
    )
    assert row is not None  # noqa: S101 - a function's row
    return Written(row["event_id"], row["event_time"], row["job_id"])


@write
async def purge_tombstones(db: Database, before: int) -> int:
    """Those that no event can be late for any more."""
    rows = await db.fetch(
        "DELETE FROM tombstones WHERE buried_at < $1 RETURNING 1", before, timeout=UPKEEP_SECONDS
    )
    return len(rows)


# What is asked


@read
async def find(db: Database, organization: str, name: str) -> Entry | None:
    row = await db.fetchrow(
        entries(
            "SELECT * FROM uploads WHERE organization = $1 AND name = $2",
            "classification_labels(organization, name, idempotency_key, run) AS labels",
        ),
        organization,
        name,
    )
    return None if row is None else entry_of(row)


@read
async def of_markers(
    db: Database, organization: str, wanted: Sequence[tuple[str, str]]
) -> dict[str, Entry]:
    """Of names and markers: the entries that stand for those very uploads, by their names."""
    rows = await db.fetch(
        entries(
            "SELECT uploads.* FROM unnest($2::text[], $3::text[]) AS wanted (name, marker) "
            "JOIN uploads ON uploads.organization = $1 AND uploads.name = wanted.name "
            "AND idempotency_key = marker"
        ),
        organization,
        [name for name, _ in wanted],
        [marker for _, marker in wanted],
    )
    return {row["name"]: entry_of(row) for row in rows}


@read
async def of_names(db: Database, organization: str, names: Sequence[str]) -> dict[str, Entry]:
    """Those that there are, whichever upload each stands for now."""
    rows = await db.fetch(
        entries("SELECT * FROM uploads WHERE organization = $1 AND name = ANY($2)"),
        organization,
        names,
    )
    return {row["name"]: entry_of(row) for row in rows}


@read
async def is_current(db: Database, organization: str, name: str, marker: str, run: int) -> bool:
    """Whether the entry still stands for that upload, and waits for that run."""
    return bool(
        await db.fetchval(
            "SELECT true FROM uploads "
            "WHERE organization = $1 AND name = $2 AND idempotency_key = $3 AND run = $4",
            organization,
            name,
            marker,
            run,
        )
    )


@read
async def label_of(
    db: Database, organization: str, name: str, marker: str
) -> tuple[str, float, str] | None:
    """Label, score and model of that very upload, once it has them."""
    row = await db.fetchrow(
        "SELECT classification_label, classification_score, classification_model FROM uploads "
        "WHERE organization = $1 AND name = $2 AND idempotency_key = $3 "
        f"AND classification_status = '{RunStatus.DONE}'",
        organization,
        name,
        marker,
    )
    return None if row is None else tuple(row)


@read
async def was_ever_seen(db: Database, organization: str, name: str) -> bool:
    """An entry, an object, an upload under way, or a tombstone of that name."""
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (SELECT FROM uploads WHERE organization = $1 AND name = $2)
                OR EXISTS (SELECT FROM object_indexed($1 || '/' || $2))
                OR image_known($1, $2)
                OR EXISTS (SELECT FROM tombstones WHERE organization = $1 AND name = $2)
            """,
            organization,
            name,
        )
    )


@read
async def shows(db: Database, organization: str, name: str) -> bool:
    """An entry, or an object that we put and whose entry is on its way."""
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (SELECT FROM uploads WHERE organization = $1 AND name = $2)
                OR EXISTS (SELECT FROM object_indexed($1 || '/' || $2) WHERE present)
            """,
            organization,
            name,
        )
    )


_SEEN = {"classification_status", "next_attempt_at", "error", "labels"}
_COLUMNS = ", ".join(name for name in Entry.__dataclass_fields__ if name not in _SEEN)


def entries(rows: str, more: str = "NULL AS labels") -> str:
    """Rows of uploads, and how the run of each stands: asked only of those that are shown."""
    return (
        f"SELECT {_COLUMNS}, status AS classification_status, next_attempt_at, error, {more} "
        f"FROM ({rows}) AS upload CROSS JOIN LATERAL classification_standing("
        "organization, name, idempotency_key, run, classification_status) "
        "ORDER BY event_time DESC, name DESC"
    )


def entry_of(row: asyncpg.Record) -> Entry:
    values = dict(row)
    values["classification_status"] = RunStatus(values["classification_status"])
    values["labels"] = tuple(values["labels"] or ())
    return Entry(**values)


def _status(text: str | None) -> RunStatus | None:
    return None if text is None else RunStatus(text)


def _mark(row: asyncpg.Record) -> Mark | None:
    if row["idempotency_key"] is None:
        return None
    stamp = Stamp(row["event_time"], row["sequencer"], row["source"])
    return Mark(stamp, row["idempotency_key"], row["e_tag"])


def _tombstone(row: asyncpg.Record) -> Tombstone | None:
    if row["buried_time"] is None:
        return None
    return Tombstone(Stamp(row["buried_time"], row["buried_sequencer"], row["buried_source"]))


def _present(row: asyncpg.Record) -> Present | None:
    if row["etag"] is None:
        return None
    return Present.of(row["etag"], row["content_type"], row["size"], row["metadata"])


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


# For the gallery


@read
async def still_to_come(db: Database, organization: str, received: dict[str, int]) -> set[str]:
    """Of names and when they were received: those without an entry that were not deleted since."""
    rows = await db.fetch(
        """
        SELECT name FROM unnest($2::text[], $3::bigint[]) AS asked (name, at)
        WHERE NOT EXISTS (SELECT FROM uploads
                          WHERE uploads.organization = $1 AND uploads.name = asked.name)
          AND NOT EXISTS (SELECT FROM tombstones
                          WHERE tombstones.organization = $1 AND tombstones.name = asked.name
                            AND tombstones.event_time >= asked.at)
        """,
        organization,
        list(received),
        list(received.values()),
    )
    return {row["name"] for row in rows}
