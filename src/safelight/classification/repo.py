"""Runs and their results. A result is written only where marker and run number still match."""

from collections.abc import Sequence
from typing import Any

from safelight.classification.base import Drawing
from safelight.classification.jobs import DrawPayload
from safelight.classification.lifecycle import DrawnParts, ReadyResult, RunTarget
from safelight.infra.activity import Unit, to_json
from safelight.infra.db import Connection, Database, read, write
from safelight.infra.queue.jobs import Job
from safelight.library.entry import MACHINE, RunStatus
from safelight.objects.keys import words

_DONE_FROM = MACHINE.before(RunStatus.DONE)


@write
async def apply(
    db: Database | Connection, findings: Sequence[ReadyResult], now: int, *, embeds: bool
) -> list[tuple[bool, bool | None]]:
    """Whole units of work of one organization in one statement, since every image passes here. Of
    each: whether the job was still ours, and whether the result was taken (`told`) or the entry has
    moved on (`dropped`); None if the entry is of other bytes. `embeds`: there is a table for it."""
    drawings = [finding.result.drawing for finding in findings]
    rows = await db.fetch(
        f"SELECT mine, taken FROM classification_results($1, $2, $3, $4, {_vectors(embeds)}, $6)",
        findings[0].target.organization,
        [_item(finding) for finding in findings],
        _DONE_FROM,
        [drawing.thumbnail for drawing in drawings],
        [drawing.embedding if embeds else None for drawing in drawings],
        now,
    )
    return [(row["mine"], row["taken"]) for row in rows]


def _item(finding: ReadyResult) -> dict[str, Any]:
    """As `classification_results` in SQL takes them."""
    target, result, drawing = finding.target, finding.result, finding.result.drawing
    return {
        "name": target.name,
        "marker": target.idempotency_key,
        "run": target.run,
        "job": finding.job.id,
        "claim": finding.job.claim,
        "label": result.label,
        "score": result.score,
        "model": result.model,
        "at": result.at,
        "labels": [{"label": label, "score": score} for label, score in result.labels],
        "words": words(target.name, result.label),
        "digest": drawing.digest,
        "color": drawing.color,
        "drawn": int(DrawnParts.of(drawing)),
        "told": to_json(finding.told),
        "dropped": to_json(finding.dropped),
    }


def _vectors(embeds: bool) -> str:
    """A server without pgvector has no such type, and takes empty places for it."""
    return "$5::halfvec[]" if embeds else "$5::text[]"


@read
async def embeds(db: Database) -> bool:
    """Whether embeddings can be kept."""
    return bool(await db.fetchval("SELECT to_regclass('embeddings') IS NOT NULL"))


@write
async def drawn(
    db: Database | Connection,
    job: Job[DrawPayload],
    drawing: Drawing,
    marks: DrawnParts,
    model: str,
    now: int,
    *,
    embeds: bool,
) -> bool:
    """What was made of an entry after its label, and the end of the job. False: not ours."""
    mine: bool = await db.fetchval(
        "SELECT classification_drawn($1, $2, $3, $4, $5, $6, $7, $8, "
        f"$9::{'halfvec' if embeds else 'text'}, $10, $11, $12)",
        job.organization,
        job.payload.name,
        job.payload.idempotencyKey,
        int(marks),
        drawing.digest,
        drawing.color,
        drawing.thumbnail,
        model,
        drawing.embedding if embeds else None,
        now,
        job.id,
        job.claim,
    )
    return mine


@write
async def draw_no_more(unit: Unit, payload: DrawPayload) -> None:
    await unit.connection.execute(
        "SELECT library_drawn($1, $2, $3, $4, NULL, NULL, NULL, $5)",
        unit.organization,
        payload.name,
        payload.idempotencyKey,
        int(DrawnParts.NO_MORE),
        unit.now,
    )


@write
async def enqueue_drawing(db: Database, wanted: DrawnParts, limit: int) -> int:
    """Of entries that lack a part of this; answers how many were added."""
    added: int = await db.fetchval(
        "SELECT classification_draw($1::smallint[], $2)", wanted.lacking, limit
    )
    return added


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


@write
async def forget_runs(db: Database, after: list[str], before: int, limit: int) -> list[str] | None:
    """Of so many after a place those that are for nothing; answers the next place, if any."""
    place: list[str] | None = await db.fetchval(
        "SELECT classification_runs_forget($1, $2, $3)", after, before, limit
    )
    return place


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
