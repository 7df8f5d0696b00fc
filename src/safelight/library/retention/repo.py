"""How long organizations keep their originals, and what is older."""

from collections.abc import Mapping, Sequence

from safelight.infra.activity import Unit, to_json
from safelight.infra.db import Database, read, write
from safelight.infra.history import Line
from safelight.library.retention.lifecycle import Aged
from safelight.objects.store import Cleared


@read
async def days_of(db: Database, organizations: Sequence[str]) -> dict[str, int]:
    """Of those that have a limit."""
    rows = await db.fetch(
        "SELECT organization, days FROM retention WHERE organization = ANY ($1)", organizations
    )
    return {row["organization"]: row["days"] for row in rows}


@read
async def limits(db: Database) -> Mapping[str, int]:
    rows = await db.fetch("SELECT organization, days FROM retention ORDER BY organization")
    return {row["organization"]: row["days"] for row in rows}


@write
async def put(unit: Unit, days: int | None) -> None:
    """None: for ever."""
    await unit.connection.execute(
        """
        WITH gone AS (DELETE FROM retention WHERE organization = $1 AND $2::integer IS NULL)
        INSERT INTO retention AS known (organization, days) SELECT $1, $2 WHERE $2 IS NOT NULL
        ON CONFLICT (organization) DO UPDATE SET days = excluded.days
        """,
        unit.organization,
        days,
    )


@read
async def older(
    db: Database, organization: str, before: int, after: tuple[int, str], limit: int
) -> list[Aged]:
    """Entries from before a time, oldest first, and what the index holds of each; of one that has
    ended and is not heard of yet, nothing."""
    rows = await db.fetch(
        """
        SELECT name, event_time,
               (SELECT etag FROM object_indexed(organization || '/' || name) WHERE present) AS etag
        FROM uploads
        WHERE organization = $1 AND event_time < $2 AND (event_time, name) > ($3, $4)
        ORDER BY event_time, name LIMIT $5
        """,
        organization,
        before,
        *after,
        limit,
    )
    return [Aged(organization, **row) for row in rows]


@read
async def is_still(db: Database, one: Aged, before: int, ticket: int) -> bool:
    """Whether it is the object of its name, that old, and with no other write under way."""
    return bool(
        await db.fetchval(
            "SELECT object_aged($1, $2, $3) AND NOT object_written($1, $4)",
            one.key,
            one.etag,
            before,
            ticket,
        )
    )


@write
async def expire(
    db: Database, one: Aged, before: int, cleared: Cleared, line: Line, now: int
) -> bool:
    """The last step of removing it. False: another has come, and stays."""
    return bool(
        await db.fetchval(
            "SELECT upload_expired($1, $2, $3, $4, $5, $6, $7)",
            one.organization,
            one.name,
            one.etag,
            before,
            cleared.ticket,
            to_json([line]),
            now,
        )
    )
