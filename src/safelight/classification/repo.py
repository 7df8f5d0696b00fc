"""Runs and their results. A result is written only where marker and run number still match."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.db import Connection, Database, read
from safelight.infra.history import Line, to_json
from safelight.infra.queue.jobs import Job


@dataclass(frozen=True, slots=True)
class Marker:
    """Which upload, and which of its runs, a result is for."""

    organization: str
    name: str
    idempotency_key: str
    run: int


@dataclass(frozen=True, slots=True)
class Result:
    label: str
    score: float
    model: str
    words: list[str]
    at: int


async def is_current(db: Database, marker: Marker) -> bool:
    return bool(
        await db.fetchval(
            "SELECT true FROM uploads WHERE organization = $1 AND name = $2 "
            "AND idempotency_key = $3 AND run = $4",
            marker.organization,
            marker.name,
            marker.idempotency_key,
            marker.run,
        )
    )


async def recorded_attempts(db: Database, marker: Marker) -> int:
    """Of this run, those that ended in words; one that killed its worker left none."""
    attempt: int | None = await db.fetchval(
        "SELECT attempt FROM classification_runs WHERE organization = $1 AND name = $2 "
        "AND idempotency_key = $3 AND run = $4",
        marker.organization,
        marker.name,
        marker.idempotency_key,
        marker.run,
    )
    return attempt or 0


async def apply(
    connection: Connection | Database,
    marker: Marker,
    result: Result,
    job: Job[Any],
    line: Line,
    dropped: Line,
) -> tuple[bool, bool]:
    """The guarded write: whether the job was still ours, and whether the result was taken."""
    row = await connection.fetchrow(
        "SELECT * FROM classification_apply"
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        marker.organization,
        marker.name,
        marker.idempotency_key,
        marker.run,
        result.label,
        result.score,
        result.model,
        result.words,
        result.at,
        job.id,
        job.claim,
        to_json([line]),
        to_json([dropped]),
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return row["mine"], row["taken"]


async def drop(
    db: Database, marker: Marker, reason: str, now: int, job: Job[Any], line: Line
) -> bool:
    """Ends a run that is for nothing any more; whether the job was still ours."""
    mine: bool = await db.fetchval(
        "SELECT classification_drop($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        marker.organization,
        marker.name,
        marker.idempotency_key,
        marker.run,
        {"code": "DROPPED", "message": reason},
        now,
        job.id,
        job.claim,
        to_json([line]),
    )
    return mine


async def note_failure(
    connection: Connection,
    marker: Marker,
    attempt: int,
    error: dict[str, str],
    *,
    final: bool,
    now: int,
) -> bool:
    """Records a failed attempt; false when the entry has moved on and nobody should be told."""
    return bool(
        await connection.fetchval(
            "SELECT classification_failed($1, $2, $3, $4, $5, $6, $7, $8)",
            marker.organization,
            marker.name,
            marker.idempotency_key,
            marker.run,
            "failed" if final else "running",
            attempt,
            error,
            now if final else None,
        )
    )


async def saved_reply(db: Database, marker: Marker) -> dict[str, Any] | None:
    """What a remote model answered before a crash."""
    reply: dict[str, Any] | None = await db.fetchval(
        "SELECT reply FROM classification_runs WHERE organization = $1 AND name = $2 "
        "AND idempotency_key = $3 AND run = $4",
        marker.organization,
        marker.name,
        marker.idempotency_key,
        marker.run,
    )
    return reply


async def save_reply(db: Database, marker: Marker, reply: dict[str, Any]) -> None:
    await db.execute(
        "UPDATE classification_runs SET reply = $5 WHERE organization = $1 AND name = $2 "
        "AND idempotency_key = $3 AND run = $4",
        marker.organization,
        marker.name,
        marker.idempotency_key,
        marker.run,
        reply,
    )


@read
async def troubles(db: Database, organization: str, markers: dict[str, str]) -> dict[str, str]:
    """By name, of names and their markers: the words of the newest run's last failed attempt."""
    rows = await db.fetch(
        """
        SELECT DISTINCT ON (name) name, error ->> 'message' AS words
        FROM unnest($2::text[], $3::text[]) AS asked (name, idempotency_key)
        JOIN classification_runs USING (name, idempotency_key)
        WHERE organization = $1 ORDER BY name, run DESC
        """,
        organization,
        list(markers),
        list(markers.values()),
    )
    return {row["name"]: row["words"] for row in rows if row["words"]}
