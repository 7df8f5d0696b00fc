"""What pages list of the library: artifacts of several generations and what was asked for, the one
that is newer, the tags in use, and what was spent day by day."""

from collections.abc import Sequence

import asyncpg

from safelight.generations.lifecycle import Artifact, ProviderSpending
from safelight.infra.db import Database, read

_DAY_MS = 86_400_000
_ARTIFACT = """
    item.*, ARRAY(SELECT tag FROM tags WHERE target_id = item.id AND target_type = 'artifact'
                  ORDER BY tag) AS tags
"""


@read
async def of_generations(
    db: Database, organization: str, generation_ids: Sequence[str]
) -> list[Artifact]:
    """Those that are there."""
    rows = await db.fetch(
        f"SELECT {_ARTIFACT} FROM artifacts AS item "
        "WHERE organization = $1 AND generation_id = ANY ($2)",
        organization,
        list(generation_ids),
    )
    return [_artifact(row) for row in rows]


@read
async def prompts(db: Database, organization: str, generation_ids: Sequence[str]) -> dict[str, str]:
    """Of those that have one, under way or over."""
    rows = await db.fetch(
        """
        SELECT id, input ->> 'prompt' AS prompt FROM generations
        WHERE organization = $1 AND id = ANY ($2)
        UNION ALL SELECT id, input ->> 'prompt' FROM generations_inflight
        WHERE organization = $1 AND id = ANY ($2) AND finished_at IS NULL
        """,
        organization,
        list(generation_ids),
    )
    return {row["id"]: row["prompt"] for row in rows if row["prompt"]}


@read
async def tags_in_use(db: Database, organization: str, limit: int) -> dict[str, int]:
    """How many artifacts have each tag, or are of a generation that has; the most used first."""
    rows = await db.fetch(
        """
        SELECT tag, count(*) AS there FROM (
            SELECT tag, target_id AS artifact FROM tags
            WHERE organization = $1 AND target_type = 'artifact'
            UNION
            SELECT tag, made.id FROM tags JOIN artifacts AS made ON made.generation_id = target_id
            WHERE tags.organization = $1 AND target_type = 'generation'
        ) AS tagged GROUP BY tag ORDER BY there DESC, tag LIMIT $2
        """,
        organization,
        limit,
    )
    return {row["tag"]: row["there"] for row in rows}


@read
async def newer(
    db: Database,
    organization: str,
    generation_id: str | None,
    tag: str | None,
    place: tuple[int, str],
) -> Artifact | None:
    """The one before `place` in the list that has the newest first."""
    row = await db.fetchrow(
        f"""
        SELECT {_ARTIFACT} FROM artifacts AS item
        WHERE organization = $1 AND ($2::text IS NULL OR generation_id = $2)
          AND (created_at, id) > ($3, $4::text)
          AND ($5::text IS NULL OR EXISTS (
              SELECT FROM tags WHERE tag = $5 AND target_id = item.id
                                 AND target_type = 'artifact')
          OR EXISTS (SELECT FROM tags WHERE tag = $5 AND target_id = item.generation_id
                                        AND target_type = 'generation'))
        ORDER BY created_at, id LIMIT 1
        """,
        organization,
        generation_id,
        *place,
        tag,
    )
    return None if row is None else _artifact(row)


@read
async def spending_by_day(
    db: Database, organization: str, since: int, until: int
) -> dict[int, list[ProviderSpending]]:
    """The same by the day on which they ended, named by its beginning (UTC), oldest first."""
    rows = await db.fetch(
        f"""
        SELECT completed_at / {_DAY_MS} * {_DAY_MS} AS day, provider, count(*) AS generations,
               sum(artifact_count)::bigint AS artifacts, sum(cost) AS cost
        FROM generations WHERE organization = $1 AND completed_at >= $2 AND completed_at < $3
        GROUP BY day, provider ORDER BY day, provider
        """,
        organization,
        since,
        until,
    )
    found: dict[int, list[ProviderSpending]] = {}
    for day, *spent in rows:
        found.setdefault(day, []).append(ProviderSpending(*spent))
    return found


def _artifact(row: asyncpg.Record) -> Artifact:
    return Artifact(**{**row, "tags": tuple(row["tags"])})
