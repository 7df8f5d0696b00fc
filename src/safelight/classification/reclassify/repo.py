"""Reclassifications, and the few of their runs that are under way."""

from typing import Any

import asyncpg

from safelight.classification.reclassify.lifecycle import (
    MACHINE,
    Begun,
    Counted,
    Reclassification,
    ReclassificationStatus,
    ReclassifyFilter,
)
from safelight.infra.activity import Unit
from safelight.infra.db import UPKEEP_SECONDS, Connection, Database, read, write

_COLUMNS = ", ".join(Reclassification.__dataclass_fields__)


@read
async def count(db: Database, organization: str, wanted: ReclassifyFilter) -> int:
    """How many entries it is about."""
    counted: int = await db.fetchval(
        "SELECT library_labelled($1, $2, $3)",
        organization,
        wanted.label,
        wanted.not_by,
        timeout=UPKEEP_SECONDS,
    )
    return counted


@write
async def add(
    unit: Unit, new_id: str, asked_by: dict[str, Any], wanted: ReclassifyFilter, total: int
) -> bool:
    """Of the entries there are by now, the newest first. False: one is under way already."""
    try:
        await unit.connection.execute(
            """
            INSERT INTO reclassifications (id, organization, asked_by, label, not_by, status,
                                           place_time, place_name, total, created_at)
            VALUES ($1, $2, $3, $4, $5, 'running', $7::bigint + 1, '', $6, $7)
            """,
            new_id, unit.organization, asked_by, wanted.label, wanted.not_by, total, unit.now,
        )  # fmt: skip
    except asyncpg.UniqueViolationError:
        return False
    return True


@read
async def find(
    db: Database | Connection, organization: str | None, wanted_id: str
) -> Reclassification | None:
    """Of that organization, or of any."""
    row = await db.fetchrow(
        f"SELECT {_COLUMNS} FROM reclassifications "
        "WHERE id = $1 AND ($2::text IS NULL OR organization = $2)",
        wanted_id,
        organization,
    )
    return None if row is None else _of(row)


@read
async def running(db: Database, organization: str) -> str | None:
    found: str | None = await db.fetchval(
        "SELECT id FROM reclassifications WHERE organization = $1 AND status = 'running'",
        organization,
    )
    return found


@read
async def all_running(db: Database) -> list[Reclassification]:
    """Everybody's, the longest under way first: at most one of each organization."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM reclassifications WHERE status = 'running' "
        "ORDER BY created_at, id LIMIT 50"
    )
    return [_of(row) for row in rows]


@read
async def lock(unit: Unit, wanted_id: str) -> Reclassification | None:
    row = await unit.connection.fetchrow(
        f"SELECT {_COLUMNS} FROM reclassifications WHERE id = $1 AND organization = $2 "
        "FOR NO KEY UPDATE",
        wanted_id,
        unit.organization,
    )
    return None if row is None else _of(row)


@write
async def count_ended(unit: Unit, wanted_id: str) -> Counted:
    row = await unit.connection.fetchrow("SELECT * FROM reclassification_count($1)", wanted_id)
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return Counted(**row)


@write
async def go_on(unit: Unit, wanted_id: str, most: int) -> Begun:
    """Begins some more runs, below those of new uploads."""
    row = await unit.connection.fetchrow(
        "SELECT * FROM reclassification_go_on($1, $2, $3)", wanted_id, most, unit.now
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    runs = tuple((one["name"], one["marker"], one["run"]) for one in row["begun"])
    return Begun(runs, row["left_out"], row["over"])


@write
async def progress(unit: Unit, wanted_id: str, counted: Counted) -> None:
    await unit.connection.execute(
        "UPDATE reclassifications SET done = done + $2, failed = failed + $3, "
        "skipped = skipped + $4 WHERE id = $1",
        wanted_id,
        counted.done,
        counted.failed,
        counted.skipped,
    )


@write
async def end(unit: Unit, wanted_id: str, status: ReclassificationStatus) -> None:
    """Of one that is done, what is missing to its total was deleted or replaced before its turn."""
    await unit.connection.execute(
        """
        UPDATE reclassifications SET status = $2::text, finished_at = $3,
            skipped = CASE $2::text WHEN 'done' THEN greatest(skipped, total - done - failed)
                      ELSE skipped END
        WHERE id = $1 AND status = ANY ($4)
        """,
        wanted_id,
        status,
        unit.now,
        MACHINE.before(status),
    )


def _of(row: asyncpg.Record) -> Reclassification:
    return Reclassification(**{**row, "status": ReclassificationStatus(row["status"])})
