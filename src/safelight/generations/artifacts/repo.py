"""The library: finished generations, artifacts, their tags, and what they cost."""

from collections import Counter
from collections.abc import Sequence

import asyncpg

from safelight.generations.lifecycle import (
    Artifact,
    DaySpending,
    FinishedGeneration,
    ProviderSpending,
)
from safelight.infra.db import Connection, Database, read, write

Position = tuple[int, str] | None

_TAGS = """
    ARRAY(SELECT tag FROM tags WHERE target_id = item.id AND target_type = '{}' ORDER BY tag)
    AS tags
"""
_ARTIFACT = f"item.*, {_TAGS.format('artifact')}"
_FINISHED = f"item.*, {_TAGS.format('generation')}"


@write
async def add(connection: Connection, artifact: Artifact) -> None:
    await connection.execute(
        """
        WITH kept AS (
            INSERT INTO artifacts (id, organization, generation_id, content_type, size_bytes,
                                   checksum, metadata, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING organization, size_bytes
        )
        SELECT quota_change(organization, size_bytes) FROM kept
        """,
        artifact.id,
        artifact.organization,
        artifact.generation_id,
        artifact.content_type,
        artifact.size_bytes,
        artifact.checksum,
        dict(artifact.metadata),
        artifact.created_at,
    )


@read
async def find(db: Database, artifact_id: str) -> Artifact | None:
    row = await db.fetchrow(f"SELECT {_ARTIFACT} FROM artifacts AS item WHERE id = $1", artifact_id)
    return None if row is None else _artifact(row)


@read
async def of_ids(db: Database, organization: str, ids: Sequence[str]) -> dict[str, Artifact]:
    rows = await db.fetch(
        f"SELECT {_ARTIFACT} FROM artifacts AS item WHERE id = ANY($2) AND organization = $1",
        organization,
        list(ids),
    )
    return {row["id"]: _artifact(row) for row in rows}


_SEARCHED = 1_000


@read
async def pictures(
    db: Database, organization: str, words: Sequence[str], limit: int
) -> list[tuple[str, str, str]]:
    """The newest still pictures, each with its checksum and the prompt it was made from; with
    words, those of the latest whose prompt or tags have all of them."""
    rows = await db.fetch(
        """
        SELECT item.id, item.checksum, coalesce(asked.input ->> 'prompt', '') AS prompt
        FROM (SELECT * FROM artifacts WHERE organization = $1 AND content_type LIKE 'image/%'
              ORDER BY created_at DESC, id DESC LIMIT $2) AS item
        LEFT JOIN generations AS asked ON asked.id = item.generation_id
        WHERE coalesce(asked.input ->> 'prompt', '') || ' ' || array_to_string(ARRAY(
            SELECT tag FROM tags WHERE target_id IN (item.id, item.generation_id)), ' ')
            ILIKE ALL ($3::text[])
        ORDER BY item.created_at DESC, item.id DESC LIMIT $4
        """,
        organization,
        _SEARCHED if words else limit,
        [f"%{word}%" for word in words],
        limit,
    )
    return [(row["id"], row["checksum"], row["prompt"]) for row in rows]


@read
async def deleted_from(db: Database, artifact_id: str) -> str | None:
    """The organization it was deleted in, if it was."""
    organization: str | None = await db.fetchval(
        "SELECT organization FROM deleted_artifacts WHERE id = $1", artifact_id
    )
    return organization


@read
async def page(
    db: Database,
    organization: str,
    generation_id: str | None,
    tag: str | None,
    before: Position,
    limit: int,
) -> list[Artifact]:
    """Newest first; a tag may be the artifact's own or its generation's, also one in flight."""
    tagged = """
        AND item.id IN (
            SELECT target_id FROM tags
            WHERE organization = $1 AND tag = $6 AND target_type = 'artifact'
            UNION ALL
            SELECT made.id FROM tags JOIN artifacts AS made ON made.generation_id = target_id
            WHERE tags.organization = $1 AND tag = $6 AND target_type = 'generation'
            UNION ALL
            SELECT made.id FROM generations_inflight AS active
            JOIN artifacts AS made ON made.generation_id = active.id
            WHERE active.organization = $1 AND finished_at IS NULL AND $6 = ANY (active.tags)
        )
    """
    rows = await db.fetch(
        f"""
        SELECT {_ARTIFACT} FROM artifacts AS item
        WHERE organization = $1 AND ($2::text IS NULL OR generation_id = $2)
          AND ($3::bigint IS NULL OR (created_at, id) < ($3, $4::text))
          {tagged if tag is not None else ""}
        ORDER BY created_at DESC, id DESC LIMIT $5
        """,
        organization,
        generation_id,
        *(before or (None, None)),
        limit + 1,
        *([] if tag is None else [tag]),
    )
    return [_artifact(row) for row in rows]


@read
async def counts(db: Database, generation_ids: Sequence[str]) -> Counter[str]:
    """How many artifacts of each generation are there: those that were deleted are not."""
    rows = await db.fetch(
        "SELECT generation_id, count(*) AS there FROM artifacts "
        "WHERE generation_id = ANY ($1) GROUP BY generation_id",
        list(generation_ids),
    )
    return Counter({row["generation_id"]: row["there"] for row in rows})


@read
async def find_finished(db: Database, generation_id: str) -> FinishedGeneration | None:
    row = await db.fetchrow(
        f"SELECT {_FINISHED} FROM generations AS item WHERE id = $1", generation_id
    )
    return None if row is None else _finished(row)


@read
async def page_finished(
    db: Database,
    organization: str,
    status: str | None,
    tag: str | None,
    before: Position,
    limit: int,
) -> list[FinishedGeneration]:
    tagged = """
        AND EXISTS (SELECT FROM tags WHERE organization = $1 AND tag = $6
                    AND target_type = 'generation' AND target_id = item.id)
    """
    rows = await db.fetch(
        f"""
        SELECT {_FINISHED} FROM generations AS item
        WHERE organization = $1 AND ($2::text IS NULL OR status = $2)
          AND ($3::bigint IS NULL OR (created_at, id) < ($3, $4::text))
          {tagged if tag is not None else ""}
        ORDER BY created_at DESC, id DESC LIMIT $5
        """,
        organization,
        status,
        *(before or (None, None)),
        limit + 1,
        *([] if tag is None else [tag]),
    )
    return [_finished(row) for row in rows]


@read
async def spending(
    db: Database, organization: str, since: int, until: int
) -> list[ProviderSpending]:
    """By provider, of generations that ended in that time; deleting artifacts changes nothing."""
    rows = await db.fetch(
        """
        SELECT provider, count(*) AS generations, sum(artifact_count)::bigint AS artifacts,
               sum(cost) AS cost
        FROM generations WHERE organization = $1 AND completed_at >= $2 AND completed_at < $3
        GROUP BY provider ORDER BY provider
        """,
        organization,
        since,
        until,
    )
    return [ProviderSpending(**row) for row in rows]


@read
async def spending_by_day(db: Database, organization: str, since: int) -> list[DaySpending]:
    """By day and provider, of days and providers of which there are any."""
    rows = await db.fetch(
        """
        SELECT completed_at / 86400000 AS day, provider, count(*) AS generations,
               sum(artifact_count)::bigint AS artifacts, sum(cost) AS cost
        FROM generations WHERE organization = $1 AND completed_at >= $2
        GROUP BY day, provider ORDER BY day, provider
        """,
        organization,
        since,
    )
    return [DaySpending(**row) for row in rows]


@write
async def put_tag(connection: Connection, organization: str, kind: str, tag: str, of: str) -> None:
    await connection.execute(
        """
        INSERT INTO tags (organization, tag, target_type, target_id) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING
        """,
        organization,
        tag,
        kind,
        of,
    )


@write
async def remove_tag(
    connection: Connection, organization: str, kind: str, tag: str, of: str
) -> None:
    await connection.execute(
        "DELETE FROM tags WHERE organization = $1 AND tag = $2 AND target_type = $3 "
        "AND target_id = $4",
        organization,
        tag,
        kind,
        of,
    )


@read
async def tag_count(connection: Connection, kind: str, of: str) -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM tags WHERE target_type = $1 AND target_id = $2", kind, of
    )
    return count


@read
async def lock(connection: Connection, artifact_id: str) -> bool:
    """Whether it is there, and stays as it is until the transaction ends."""
    row = await connection.fetchrow("SELECT FROM artifacts WHERE id = $1 FOR UPDATE", artifact_id)
    return row is not None


@write
async def remove(connection: Connection, artifact_id: str, now: int) -> bool:
    """The row and its tags go, the memory of it stays. False: it was gone before."""
    organization = await connection.fetchval(
        """
        WITH gone AS (DELETE FROM artifacts WHERE id = $1 RETURNING organization, size_bytes)
        SELECT organization, quota_change(organization, -size_bytes) FROM gone
        """,
        artifact_id,
    )
    if organization is None:
        return False
    await connection.execute(
        """
        WITH untagged AS (DELETE FROM tags WHERE target_id = $1 AND target_type = 'artifact')
        INSERT INTO deleted_artifacts (id, organization, deleted_at) VALUES ($1, $2, $3)
        ON CONFLICT DO NOTHING
        """,
        artifact_id,
        organization,
        now,
    )
    return True


def _artifact(row: asyncpg.Record) -> Artifact:
    return Artifact(**{**row, "tags": tuple(row["tags"])})


def _finished(row: asyncpg.Record) -> FinishedGeneration:
    return FinishedGeneration(**{**row, "tags": tuple(row["tags"])})
