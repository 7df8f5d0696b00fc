"""The walks over objects and entries, a page at a time, and the repair that is a row's own.

Each row of a page is looked up on the other side by a subquery, which cannot become a join with all
of that side: a page costs what a page holds, however stale the planner's figures are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from safelight.infra.activity import Unit
from safelight.infra.db import Database, read, write
from safelight.library.entry import MACHINE, RunStatus
from safelight.library.order import Mark
from safelight.library.reconcile.mend import Name, Page

# By its times something is young when work on it may be under way; a time yet to come says nothing.
_NOT_YOUNG = "event_time NOT BETWEEN $1 AND $2"


@read
async def objects_page(db: Database, after: str, limit: int, young: tuple[int, int]) -> Page:
    """Objects that no entry stands for."""
    row = await db.fetchrow(
        f"""
        WITH page AS MATERIALIZED (
            SELECT key, organization, name, event_time, metadata ->> 'idempotencyKey' AS marker
            FROM objects_after($3, $4)
        )
        SELECT (SELECT key FROM page ORDER BY key DESC LIMIT 1) AS last,
               (SELECT count(*) FROM page) AS seen,
               ARRAY(SELECT key FROM page
                     WHERE marker IS NOT NULL AND {_NOT_YOUNG}
                       AND marker IS DISTINCT FROM (
                           SELECT idempotency_key FROM uploads
                           WHERE organization = page.organization AND name = page.name)
                     ORDER BY key) AS suspects
        """,
        *young,
        after,
        limit,
    )
    return _page(row, limit)


@read
async def entries_page(db: Database, after: str, limit: int, young: tuple[int, int]) -> Page:
    """Entries without an object, or that wait for a run that no job works on."""
    row = await db.fetchrow(
        f"""
        WITH page AS MATERIALIZED ({_PAGE})
        SELECT (SELECT key FROM page ORDER BY organization DESC, name DESC LIMIT 1) AS last,
               (SELECT count(*) FROM page) AS seen,
               ARRAY(SELECT key FROM page
                     WHERE {_NOT_YOUNG}
                       AND ((SELECT present FROM object_indexed(page.key)) IS NOT TRUE
                            OR classification_under_way(classification_status)
                               AND classification_idle(organization, name, idempotency_key))
                     ORDER BY organization, name) AS suspects
        """,
        *young,
        *_parts(after),
        limit,
    )
    return _page(row, limit)


@read
async def entries(
    db: Database, after: str, limit: int, young: tuple[int, int]
) -> list[tuple[Name, str | None, bool]]:
    """Every entry, with its etag and whether it waits for a run that no job works on; without an
    etag when it is young."""
    rows = await db.fetch(
        f"""
        SELECT organization, name, CASE WHEN page.{_NOT_YOUNG} THEN e_tag END AS etag,
               classification_under_way(classification_status)
               AND classification_idle(organization, name, idempotency_key) AS idle
        FROM ({_PAGE}) AS page ORDER BY organization, name
        """,
        *young,
        *_parts(after),
        limit,
    )
    return [(Name(row["organization"], row["name"]), row["etag"], row["idle"]) for row in rows]


@read
async def differing(db: Database, held: Sequence[tuple[Name, str]]) -> list[Name]:
    """Of what a bucket lists, with its etags: what no entry stands for."""
    rows = await db.fetch(
        """
        SELECT organization, name
        FROM unnest($1::text[], $2::text[], $3::text[]) AS held (organization, name, etag)
        LEFT JOIN uploads USING (organization, name)
        WHERE uploads.e_tag IS DISTINCT FROM held.etag
        """,
        [name.organization for name, _ in held],
        [name.name for name, _ in held],
        [etag for _, etag in held],
    )
    return [Name(row["organization"], row["name"]) for row in rows]


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


_PAGE = """
SELECT organization || '/' || name AS key, organization, name, idempotency_key, event_time,
       e_tag, classification_status
FROM uploads WHERE (organization, name) > ($3, $4) ORDER BY organization, name LIMIT $5
"""


def _parts(key: str) -> tuple[str, str]:
    organization, _, name = key.partition("/")
    return organization, name


def _page(row: Any, limit: int) -> Page:
    suspects = [Name(*_parts(key)) for key in row["suspects"]]
    return Page(suspects, row["last"] if row["seen"] == limit else None)
