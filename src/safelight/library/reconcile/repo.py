"""The walk over index and entries, a page at a time, and the repair that is a row's own."""

from collections.abc import Mapping
from typing import Any

from safelight.infra.activity import Unit
from safelight.infra.db import Database, read, write
from safelight.library.entry import MACHINE, RunStatus
from safelight.library.order import Mark
from safelight.library.reconcile.compare import Entered, Indexed


@read
async def indexed(db: Database, organization: str, after: str, limit: int) -> dict[str, Indexed]:
    """The objects of an organization after a name, in the order of their keys."""
    rows = await db.fetch(
        "SELECT name, etag, size, metadata ->> 'idempotencyKey' AS marker, blob, event_time "
        "FROM objects_of($1, $2, $3)",
        organization,
        after,
        limit,
    )
    return {name: Indexed(*rest) for name, *rest in rows}


@read
async def entered(db: Database, organization: str, after: str, limit: int) -> dict[str, Entered]:
    """Its entries, in the same order."""
    rows = await db.fetch(
        "SELECT name, e_tag, idempotency_key, event_time, "
        "classification_under_way(classification_status) "
        "AND classification_idle(organization, name, idempotency_key) AS idle "
        "FROM library_after($1, $2, $3)",
        organization,
        after,
        limit,
    )
    return {name: Entered(*rest) for name, *rest in rows}


@read
async def roughly(db: Database) -> int:
    """How many entries there are, as the planner has it."""
    count: int = await db.fetchval(
        "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'uploads'::regclass"
    )
    return count


@write
async def charge(unit: Unit, size: int) -> None:
    """For bytes that nobody was charged for, as somebody else has put them there."""
    await unit.connection.execute("SELECT quota_change($1, $2)", unit.organization, size)


@write
async def say_failed(
    unit: Unit, name: str, mark: Mark, run: int, error: Mapping[str, Any] | None
) -> None:
    """What the burial of its run would have written; without an error, the run's row has it."""
    guard = (unit.organization, name, mark.idempotency_key, run)
    if error is None:
        await unit.connection.execute(
            "SELECT library_note($1, $2, $3, $4, $5)", *guard, RunStatus.FAILED
        )
        return
    await unit.connection.execute(
        "SELECT classification_gave_up($1, $2, $3, $4, $5, $6, $7)",
        *guard,
        MACHINE.before(RunStatus.FAILED),
        dict(error),
        unit.now,
    )
