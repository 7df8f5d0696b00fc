"""Runs and their results. A result is written only where marker and run number still match."""

from collections.abc import Sequence
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
    told: Sequence[Line],
    dropped: Sequence[Line],
) -> tuple[bool, bool]:
    """A whole unit of work in one statement, since every image passes here: whether the job was
    still ours, and whether the result was taken (`told`) or the entry has moved on (`dropped`)."""
    row = await db.fetchrow(
        "SELECT * FROM classification_done"
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        *_key(target),
        _DONE_FROM,
        result.label,
        result.score,
        result.model,
        [{"label": label, "score": score} for label, score in result.labels],
        words(target.name, result.label),
        result.at,
        job.id,
        job.claim,
        to_json(told),
        to_json(dropped),
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
    status = RunStatus.FAILED if final else RunStatus.PENDING
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


@write
async def try_again(unit: Unit, target: RunTarget) -> None:
    """A run that had failed waits once more, as before its first attempt."""
    await unit.connection.execute(
        "SELECT classification_failed($1, $2, $3, $4, $5, $6, 0, NULL, NULL)",
        *_key(target),
        MACHINE.before(RunStatus.PENDING),
        RunStatus.PENDING,
    )


@write
async def count_child_death(unit: Unit, target: RunTarget) -> int:
    """How many processes have died of the run's image, with this one."""
    deaths: int | None = await unit.connection.fetchval(
        "SELECT classification_child_died($1, $2, $3, $4)", *_key(target)
    )
    return deaths or 0


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


def _key(target: RunTarget) -> tuple[str, str, str, int]:
    return target.organization, target.name, target.idempotency_key, target.run
