"""The submissions table, and what is asked of other tables about a submission."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from safelight.infra.db import Connection, Database
from safelight.submissions.lifecycle import UNDER_WAY, State
from safelight.submissions.looks import Closeness, Look

PROCESS = "submissions.process"
_UNDER_WAY = "state IN ('RECEIVED', 'TIER1_SCANNING', 'TIER2_SCANNING')"


@dataclass(frozen=True, slots=True)
class Submission:
    id: str
    organization: str
    title: str | None
    submitted_by: dict[str, str]
    source_kind: str
    source_id: str
    source_marker: str
    source_time: int
    source_current: bool
    checksum: str
    content_type: str
    size_bytes: int
    state: State
    run: int
    findings: list[dict[str, Any]]
    rejection: dict[str, str] | None
    approval_id: str | None
    dhash: int | None
    phash: int | None
    rendition_type: str | None
    rendition_size: int | None
    rendition_etag: str | None
    created_at: int
    updated_at: int

    @property
    def subject(self) -> str:
        return f"submission:{self.id}"

    @property
    def source_subject(self) -> str:
        return f"{self.source_kind}:{self.source_id}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A submission, and what its staleness is judged from."""

    submission: Submission
    waiting: bool
    budget: dict[str, Any] | None
    legacy: Any | None
    inflight: dict[str, Any] | None


_COLUMNS = ", ".join(Submission.__dataclass_fields__)
_PLACES = ", ".join(f"${n + 1}" for n in range(len(Submission.__dataclass_fields__)))
# Expiring values beside a row; $1 is the present moment.
_SEEN = f"""
    SELECT {_COLUMNS}, state IN ('RECEIVED', 'TIER1_SCANNING', 'TIER2_SCANNING')
               AND job_lives('{PROCESS}', id) AS waiting,
           (SELECT value FROM kv WHERE key = 'recovery:budget:' || id
                AND (expires_at IS NULL OR expires_at > $1)) AS budget,
           (SELECT value FROM kv WHERE key = 'recovery:retried:' || id
                AND (expires_at IS NULL OR expires_at > $1)) AS legacy,
           (SELECT value FROM kv WHERE key = 'inflight:' || id
                AND (expires_at IS NULL OR expires_at > $1)) AS inflight
    FROM submissions
"""


async def add(connection: Connection, submission: Submission) -> None:
    await connection.execute(
        f"INSERT INTO submissions ({_COLUMNS}) VALUES ({_PLACES})",
        *(getattr(submission, name) for name in Submission.__dataclass_fields__),
    )


async def find(db: Database | Connection, submission_id: str) -> Submission | None:
    row = await db.fetchrow(f"SELECT {_COLUMNS} FROM submissions WHERE id = $1", submission_id)
    return None if row is None else _submission(row)


async def lock(connection: Connection, submission_id: str) -> Submission | None:
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM submissions WHERE id = $1 FOR UPDATE", submission_id
    )
    return None if row is None else _submission(row)


async def start_run(connection: Connection, submission_id: str) -> int:
    run: int = await connection.fetchval(
        "UPDATE submissions SET run = run + 1 WHERE id = $1 RETURNING run", submission_id
    )
    return run


async def move(
    connection: Connection, submission_id: str, state: State, now: int, changes: dict[str, Any]
) -> None:
    """`changes` are columns that change together with the state."""
    settings = "".join(f", {name} = ${n}" for n, name in enumerate(changes, 4))
    await connection.execute(
        f"UPDATE submissions SET state = $2, updated_at = $3{settings} WHERE id = $1",
        submission_id,
        state,
        now,
        *changes.values(),
    )


async def finish_job(connection: Connection, job_id: int, claim: int) -> bool:
    mine: bool = await connection.fetchval(
        "SELECT job_finish($1::bigint, $2::integer) -- DELETE ", job_id, claim
    )
    return mine


async def see(db: Database, submission_id: str, now: int) -> Seen | None:
    row = await db.fetchrow(f"{_SEEN} WHERE id = $2", now, submission_id)
    return None if row is None else _seen(row)


async def page(
    db: Database,
    organization: str,
    state: State | None,
    before: tuple[int, str] | None,
    limit: int,
    now: int,
) -> list[Seen]:
    """Newest first; one row more than asked tells that there is more."""
    conditions, values = ["organization = $2"], [now, organization, limit + 1]
    if state is not None:
        values.append(state)
        conditions.append(f"state = ${len(values)}")
    if before is not None:
        values += before
        conditions.append(f"(created_at, id) < (${len(values) - 1}, ${len(values)})")
    rows = await db.fetch(
        f"{_SEEN} WHERE {' AND '.join(conditions)} ORDER BY created_at DESC, id DESC LIMIT $3",
        *values,
    )
    return [_seen(row) for row in rows]


# Stuck ones


async def stuck(
    db: Database, before: int, after: tuple[int, str], limit: int, now: int
) -> list[Seen]:
    """Under way since before then, and nothing in the queue works for them; longest first."""
    rows = await db.fetch(
        f"""
        {_SEEN} WHERE {_UNDER_WAY} AND updated_at < $2 AND (updated_at, id) > ($3, $4)
            AND NOT job_lives('{PROCESS}', id)
        ORDER BY updated_at, id LIMIT $5
        """,
        now,
        before,
        *after,
        limit,
    )
    return [_seen(row) for row in rows]


async def see_locked(connection: Connection, submission_id: str, now: int) -> Seen | None:
    """Locks first and reads in a statement of its own, which sees what was committed before."""
    await connection.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", submission_id)
    row = await connection.fetchrow(f"{_SEEN} WHERE id = $2", now, submission_id)
    return None if row is None else _seen(row)


async def lock_recovery(connection: Connection) -> bool:
    """Until the transaction's end; false when another process has it."""
    return bool(await connection.fetchval("SELECT recovery_try_lock()"))


async def values(db: Database, keys: Sequence[str], now: int) -> list[Any]:
    """Expiring values by their keys, those that are there."""
    rows = await db.fetch(
        "SELECT value FROM kv WHERE key = ANY ($1) AND (expires_at IS NULL OR expires_at > $2)",
        keys,
        now,
    )
    return [row["value"] for row in rows]


# Alike ones


async def published_twin(
    db: Database, submission: Submission, look: Look | None, closeness: Closeness
) -> tuple[str, bool] | None:
    """Another one of the organization that everybody can see, and whether it is the same file."""
    row = await db.fetchrow(
        """
        SELECT id, checksum = $3 AS exact FROM submissions
        WHERE organization = $1 AND state = 'PUBLISHED' AND id <> $2 AND (checksum = $3 OR (
            print_distance(dhash, $4) <= $6 AND print_distance(phash, $5) <= $7))
        ORDER BY exact DESC, id LIMIT 1
        """,
        submission.organization,
        submission.id,
        submission.checksum,
        look and look.dhash,
        look and look.phash,
        closeness.dhash,
        closeness.phash,
    )
    return None if row is None else (row["id"], row["exact"])


async def known_label(db: Database, submission: Submission) -> tuple[str, float, str] | None:
    """What the library's classifier has said of this very upload."""
    row = await db.fetchrow(
        "SELECT classification_label, classification_score, classification_model FROM uploads "
        "WHERE organization = $1 AND name = $2 AND idempotency_key = $3 "
        "AND classification_status = 'done'",
        submission.organization,
        submission.source_id,
        submission.source_marker,
    )
    return None if row is None else tuple(row)


# Sources that are gone


async def of_source(db: Database, organization: str, kind: str, source_id: str) -> list[Submission]:
    """Those that are not over, and published ones."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM submissions WHERE organization = $1 AND source_kind = $2 "
        "AND source_id = $3 AND state NOT IN ('REJECTED', 'WITHDRAWN') ORDER BY created_at, id",
        organization,
        kind,
        source_id,
    )
    return [_submission(row) for row in rows]


async def was_replaced(
    db: Database, submission: Submission, key: str, deleted_at: int, event_id: int
) -> bool:
    """Whether another upload had taken the name before it was deleted: by the library, or by an
    event of late that it may not have heard of."""
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM uploads WHERE organization = $1 AND name = $2
                  AND idempotency_key <> $3 AND event_time > $4 AND event_time <= $5
            ) OR EXISTS (
                SELECT FROM object_events
                WHERE id BETWEEN $6 - 5000 AND $6 AND key = $7 AND action = 'created'
                  AND event_time > $4 AND event_time <= $5
                  AND metadata ->> 'idempotencyKey' IS DISTINCT FROM $3
            )
            """,
            submission.organization,
            submission.source_id,
            submission.source_marker,
            submission.source_time,
            deleted_at,
            event_id,
            key,
        )
    )


async def outlive(connection: Connection, submission_id: str) -> None:
    """Its source was replaced before the name was deleted: deletes do not concern it any more."""
    await connection.execute(
        "UPDATE submissions SET source_current = false WHERE id = $1", submission_id
    )


def _submission(row: asyncpg.Record) -> Submission:
    values = {name: row[name] for name in Submission.__dataclass_fields__}
    return Submission(**{**values, "state": State(values["state"])})


def _seen(row: asyncpg.Record) -> Seen:
    return Seen(_submission(row), row["waiting"], row["budget"], row["legacy"], row["inflight"])


assert {State(word) for word in _UNDER_WAY.split("'")[1::2]} == UNDER_WAY  # noqa: S101 - one truth
