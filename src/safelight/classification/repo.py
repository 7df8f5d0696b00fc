"""Runs and their results. A result is written only where marker and run number still match."""

from typing import Any

from safelight.classification.lifecycle import Result, RunTarget
from safelight.infra.activity import Unit, to_json
from safelight.infra.db import Connection, Database, read, write
from safelight.infra.history import Line
from safelight.infra.queue.jobs import Job
from safelight.library.entry import MACHINE, RunStatus
from safelight.objects.keys import words

_DONE_FROM = MACHINE.before(RunStatus.DONE)


@write
async def apply(
    db: Database | Connection,
    target: RunTarget,
    result: Result,
    job: Job[Any],
    told: Line,
    dropped: Line,
) -> tuple[bool, bool]:
    """A whole unit of work in one statement, since every image passes here: whether the job was
    still ours, and whether the result was taken (`told`) or the entry has moved on (`dropped`)."""
    row = await db.fetchrow(
        "SELECT * FROM classification_apply"
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        *_key(target),
        _DONE_FROM,
        result.label,
        result.score,
        result.model,
        words(target.name, result.label),
        result.at,
        job.id,
        job.claim,
        to_json([told]),
        to_json([dropped]),
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return row["mine"], row["taken"]


@write
async def drop(unit: Unit, target: RunTarget, reason: str) -> None:
    """The end of a run that is for nothing any more."""
    await unit.connection.execute(
        "SELECT classification_drop($1, $2, $3, $4, $5, $6, $7)",
        *_key(target),
        MACHINE.before(RunStatus.DROPPED),
        {"code": "DROPPED", "message": reason},
        unit.now,
    )


@write
async def note_failure(
    unit: Unit, target: RunTarget, attempt: int, error: dict[str, str], *, final: bool
) -> bool:
    """Records a failed attempt; false when the entry has moved on and nobody should be told."""
    status = RunStatus.FAILED if final else RunStatus.RUNNING
    wanted: bool = await unit.connection.fetchval(
        "SELECT classification_failed($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        *_key(target),
        MACHINE.before(status),
        status,
        attempt,
        error,
        unit.now if final else None,
    )
    return wanted


@read
async def saved_reply(db: Database, target: RunTarget) -> dict[str, Any] | None:
    """What a remote model answered before a crash."""
    reply: dict[str, Any] | None = await db.fetchval(
        "SELECT reply FROM classification_runs WHERE organization = $1 AND name = $2 "
        "AND idempotency_key = $3 AND run = $4",
        *_key(target),
    )
    return reply


@write
async def save_reply(db: Database, target: RunTarget, reply: dict[str, Any]) -> None:
    await db.execute(
        "UPDATE classification_runs SET reply = $5 WHERE organization = $1 AND name = $2 "
        "AND idempotency_key = $3 AND run = $4",
        *_key(target),
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


def _key(target: RunTarget) -> tuple[str, str, str, int]:
    return target.organization, target.name, target.idempotency_key, target.run
