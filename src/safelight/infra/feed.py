"""The feed: an organization's history as those read it who go on after the last `seq` they saw.

It is cut after a while; what lies before the cut is only the history of its subjects (stretches.py
forgets what no subject needs any more).
"""

from dataclasses import dataclass

from safelight.infra.db import UPKEEP_SECONDS, Database, read, write
from safelight.infra.history import Activity
from safelight.infra.stretches import Stretched

HISTORY = Stretched(
    "activity",
    "activity_seq",
    "story_needed(organization, also) OR story_needed(organization, subject)",
)


@read
async def lines(
    db: Database, organization: str, *, after: int, limit: int, types: list[str] | None
) -> list[Activity]:
    """The organization's messages after a seq, oldest first. `types` None: inner ones as well."""
    return await _lines(db, _LATER, organization, after, limit, types)


@read
async def earlier(
    db: Database, organization: str, *, before: int, limit: int, types: list[str] | None
) -> list[Activity]:
    """Those before a seq, newest first."""
    return await _lines(db, _EARLIER, organization, before, limit, types)


@read
async def place_at(db: Database, organization: str, at: int) -> int:
    """The seq behind which the first line of that moment or later is: a few steps through the
    index, since time rises with seq. Lines of one second may stand the other way round."""
    floor, newest = await bounds(db, organization)
    found: int = await db.fetchval(_PLACE_AT, organization, at, floor, newest)
    return found


# As the index activity_rare leaves them out.
_OF_EVERY_IMAGE = (
    "image_uploaded", "upload_ingested", "upload_stored", "event_received",
    "classification_workflow_started", "run_attempt", "classification_updated",
)  # fmt: skip
_ROW = "seq, type, at, data, subject, also"


@dataclass(frozen=True, slots=True)
class _Way:
    """One of the two directions in which the feed is read."""

    beyond: str
    order: str
    last: str

    @property
    def all(self) -> str:
        return f"""
        SELECT {_ROW} FROM activity
        WHERE organization = $1 AND seq {self.beyond} $2 ORDER BY seq {self.order} LIMIT $3
        """

    @property
    def of_types(self) -> str:
        """What is near has most of what is asked for, or is all there is. Of what is far, rare
        types are looked up one by one, instead of walking everything in between; the usual ones
        ($5) come soon."""
        return f"""
        WITH near AS MATERIALIZED (
            SELECT {_ROW} FROM activity
            WHERE organization = $1 AND seq {self.beyond} $2 ORDER BY seq {self.order} LIMIT 4 * $3
        ), found AS MATERIALIZED (
            SELECT * FROM near WHERE type = ANY($4::text[]) LIMIT $3
        ), place AS MATERIALIZED (
            SELECT {self.last}(seq) AS seq FROM near
            HAVING count(*) = 4 * $3 AND (SELECT count(*) FROM found) < $3
        )
        SELECT * FROM found
        UNION ALL
        SELECT far.* FROM place CROSS JOIN LATERAL (
            SELECT {_ROW} FROM activity
            WHERE organization = $1 AND seq {self.beyond} place.seq AND type = ANY($5::text[])
              AND cardinality($5::text[]) > 0
            ORDER BY seq {self.order} LIMIT $3
        ) AS far
        UNION ALL
        SELECT far.* FROM place CROSS JOIN unnest($6::text[]) AS wanted CROSS JOIN LATERAL (
            SELECT {_ROW} FROM activity
            WHERE organization = $1 AND type = wanted AND seq {self.beyond} place.seq
              AND type NOT IN {_OF_EVERY_IMAGE}
            ORDER BY seq {self.order} LIMIT $3
        ) AS far
        ORDER BY seq {self.order} LIMIT $3
        """


_LATER, _EARLIER = _Way(">", "ASC", "max"), _Way("<", "DESC", "min")
# The place is between `low` and `high`: what lies at `low` is older, what lies behind `high` not.
_PLACE_AT = """
WITH RECURSIVE search (low, high) AS (
    SELECT $3::bigint, $4::bigint
    UNION ALL
    SELECT CASE WHEN line.at < $2 THEN line.seq ELSE low END,
           CASE WHEN line.at < $2 THEN high ELSE (low + high) / 2 END
    FROM search LEFT JOIN LATERAL (
        SELECT seq, at FROM activity
        WHERE organization = $1 AND seq > (low + high) / 2 ORDER BY seq LIMIT 1
    ) AS line ON true
    WHERE low < high
)
SELECT min(high) FROM search
"""


@read
async def _lines(
    db: Database, way: _Way, organization: str, place: int, limit: int, types: list[str] | None
) -> list[Activity]:
    if types is None:
        rows = await db.fetch(way.all, organization, place, limit)
    else:
        usual = [each for each in types if each in _OF_EVERY_IMAGE]
        rare = [each for each in types if each not in _OF_EVERY_IMAGE]
        rows = await db.fetch(way.of_types, organization, place, limit, types, usual, rare)
    return [Activity(*row) for row in rows]


@read
async def bounds(db: Database, organization: str) -> tuple[int, int]:
    """Where the feed begins (what lies at or before it was cut) and its newest seq."""
    row = await db.fetchrow(
        """
        SELECT coalesce((SELECT seq FROM activity_floor WHERE organization = $1), 0) AS floor,
               coalesce((SELECT seq FROM activity WHERE organization = $1
                         ORDER BY seq DESC LIMIT 1), 0) AS newest
        """,
        organization,
    )
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return row["floor"], max(row["newest"], row["floor"])


@read
async def newest(db: Database) -> dict[str, int]:
    """Every organization's newest seq: a step through the index for each."""
    rows = await db.fetch(
        """
        WITH RECURSIVE walk AS (
            (SELECT organization, seq FROM activity ORDER BY organization DESC, seq DESC LIMIT 1)
            UNION ALL
            SELECT next.* FROM walk CROSS JOIN LATERAL (
                SELECT organization, seq FROM activity
                WHERE organization < walk.organization
                ORDER BY organization DESC, seq DESC LIMIT 1) AS next
        ) SELECT organization, seq FROM walk
        """
    )
    return {row["organization"]: row["seq"] for row in rows}


@write
async def cut(db: Database, before_ms: int) -> None:
    """Moves each organization's floor past what is older, by its own time or by its stretch's; the
    rows stay for their subjects. Stretches that were looked through lie below it already."""
    await db.execute(
        """
        INSERT INTO activity_floor (organization, seq)
        SELECT organization, max(seq) FROM activity
        WHERE seq >= (SELECT stretches_unlooked('activity'))
          AND (at < $1 OR seq < (SELECT stretches_left('activity', $1)))
        GROUP BY organization
        ON CONFLICT (organization) DO UPDATE SET seq = greatest(activity_floor.seq, excluded.seq)
        """,
        before_ms,
        timeout=UPKEEP_SECONDS,
    )
