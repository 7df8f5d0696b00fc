"""The tables of limits and of what was used. What is charged beside other rows is charged by their
own statements, through the functions in sql/quotas.sql."""

import json
from collections.abc import Mapping, Sequence

import asyncpg

from safelight.errors import SafelightError
from safelight.infra.db import UPKEEP_SECONDS, Connection, Database, read, write
from safelight.quotas.lifecycle import Meter, Quota, refusal

_USED_UP = "SL003"


def refused(error: asyncpg.PostgresError) -> SafelightError | None:
    """What the caller is told, if it was a limit that said no."""
    if error.sqlstate != _USED_UP:
        return None
    said = json.loads(error.detail or "{}")
    return refusal(Meter(said["meter"]), said["most"], said["seconds"])


@write
async def charge(
    connection: Connection, organization: str, meter: Meter, amount: int, now: int
) -> None:
    try:
        await connection.execute(
            "SELECT quota_charge($1, $2, $3, $4)", organization, meter, amount, now
        )
    except asyncpg.PostgresError as error:
        raise refused(error) or error from error


@read
async def quotas(db: Connection | Database, organization: str, now: int) -> list[Quota]:
    rows = await db.fetch("SELECT * FROM quota_shown($1, $2)", organization, now)
    return [Quota(Meter(meter), *rest) for meter, *rest in rows]


@read
async def quotas_of(db: Database, organizations: Sequence[str], now: int) -> dict[str, list[Quota]]:
    rows = await db.fetch(
        "SELECT organization, shown.* FROM unnest($1::text[]) AS organization, "
        "quota_shown(organization, $2) AS shown",
        organizations,
        now,
    )
    found: dict[str, list[Quota]] = {organization: [] for organization in organizations}
    for organization, meter, *rest in rows:
        found[organization].append(Quota(Meter(meter), *rest))
    return found


@write
async def put_limits(
    db: Connection | Database, organization: str, limits: Mapping[Meter, int | None]
) -> None:
    """None: nothing of its own. The instance's are those of the organization ''."""
    await db.execute(
        """
        WITH wanted AS (SELECT * FROM unnest($2::text[], $3::bigint[]) AS wanted (meter, most)),
             gone AS (DELETE FROM quota_limits WHERE organization = $1 AND meter IN (
                          SELECT meter FROM wanted WHERE most IS NULL))
        INSERT INTO quota_limits AS known (organization, meter, most)
        SELECT $1, meter, most FROM wanted WHERE most IS NOT NULL
        ON CONFLICT (organization, meter) DO UPDATE SET most = excluded.most
        WHERE known.most <> excluded.most
        """,
        organization,
        list(limits),
        list(limits.values()),
    )


@write
async def fold(db: Database) -> None:
    await db.execute(
        "SELECT quota_fold(organization) FROM (SELECT DISTINCT organization FROM quota_changes "
        "ORDER BY organization) AS changed",
        timeout=UPKEEP_SECONDS,
    )
