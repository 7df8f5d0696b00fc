"""Generations in flight: the row that owns each, its tasks, and their passage to the library."""

from collections.abc import Sequence
from decimal import Decimal

import asyncpg

from safelight.generations.jobs import work
from safelight.generations.lifecycle import (
    Generation,
    GenerationStatus,
    Media,
    MediaKind,
    Task,
    TaskError,
    TaskErrorCode,
    TaskStatus,
    check_moves,
)
from safelight.infra.db import Connection, Database, read, write
from safelight.infra.states import Phase, listed

_UNDER_WAY = listed(TaskStatus.in_phase(Phase.UNDER_WAY))


@write
async def add(connection: Connection, generation: Generation) -> None:
    """The request, its tasks, and a job for each."""
    await connection.execute(
        """
        INSERT INTO generations_inflight
            (id, organization, provider, kind, model, input, count, tags, created_at, timeout_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        """,
        generation.id,
        generation.organization,
        generation.provider,
        generation.kind,
        generation.model,
        dict(generation.input),
        generation.count,
        list(generation.tags),
        generation.created_at,
        generation.timeout_at,
    )
    await connection.execute(
        """
        WITH task AS (
            INSERT INTO generation_tasks (generation_id, artifact_id, position, provider_task_id)
            SELECT $1, artifact, place - 1, provider_task
            FROM unnest($2::text[], $3::text[]) WITH ORDINALITY
                 AS made(artifact, provider_task, place)
            RETURNING artifact_id
        )
        SELECT job_enqueue($4, $5,
            jsonb_build_object('generationId', $1::text, 'artifactId', artifact_id), artifact_id)
        FROM task
        """,
        generation.id,
        [task.artifact_id for task in generation.tasks],
        [task.provider_task_id for task in generation.tasks],
        work(generation.provider).name,
        generation.organization,
    )


@read
async def lock(connection: Connection, generation_id: str) -> Generation | None:
    """Nothing else can happen to this generation until the transaction ends."""
    row = await connection.fetchrow(
        "SELECT * FROM generations_inflight WHERE id = $1 FOR UPDATE", generation_id
    )
    return None if row is None else _generation(row, await _tasks(connection, [generation_id]))


@read
async def find(db: Connection | Database, generation_id: str) -> Generation | None:
    row = await db.fetchrow("SELECT * FROM generations_inflight WHERE id = $1", generation_id)
    return None if row is None else _generation(row, await _tasks(db, [generation_id]))


@read
async def page(
    db: Database, organization: str, tag: str | None, before: tuple[int, str] | None, limit: int
) -> list[Generation]:
    """Those that are not over, newest first; one row more than asked tells that there is more."""
    rows = await db.fetch(
        """
        SELECT * FROM generations_inflight
        WHERE organization = $1 AND finished_at IS NULL AND ($2::text IS NULL OR $2 = ANY (tags))
          AND ($3::bigint IS NULL OR (created_at, id) < ($3, $4::text))
        ORDER BY created_at DESC, id DESC LIMIT $5
        """,
        organization,
        tag,
        *(before or (None, None)),
        limit + 1,
    )
    tasks = await _tasks(db, [row["id"] for row in rows])
    return [_generation(row, tasks) for row in rows]


@write
async def save(connection: Connection, before: Generation, after: Generation) -> None:
    """Writes what differs. The row is locked by this transaction."""
    check_moves(before, after)
    if _own_state(before) != _own_state(after):
        await connection.execute(
            """
            UPDATE generations_inflight
            SET status = $2, closes_at = $3, finished_at = $4, tags = $5 WHERE id = $1
            """,
            after.id,
            after.status,
            after.closes_at,
            after.finished_at,
            list(after.tags),
        )
    for old, new in zip(before.tasks, after.tasks, strict=True):
        if old != new:
            await _save_task(connection, new)


def _own_state(generation: Generation) -> tuple[object, ...]:
    return generation.status, generation.closes_at, generation.tags


async def _save_task(connection: Connection, task: Task) -> None:
    await connection.execute(
        """
        UPDATE generation_tasks
        SET status = $2, provider_task_id = $3, former_ids = $4, attempt = $5, error = $6,
            media = $7, cost = $8
        WHERE artifact_id = $1
        """,
        task.artifact_id,
        task.status,
        task.provider_task_id,
        list(task.former_ids),
        task.attempt,
        task.error.to_json() if task.error else None,
        task.media.to_json() if task.media else None,
        task.cost,
    )


@write
async def publish(connection: Connection, generation: Generation) -> None:
    """The end: the library's row, and the tags as rows."""
    await connection.execute(
        """
        INSERT INTO generations (id, organization, status, provider, kind, model, input, count,
            artifact_count, tasks, cost, created_at, timeout_at, completed_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        """,
        generation.id,
        generation.organization,
        generation.status,
        generation.provider,
        generation.kind,
        generation.model,
        dict(generation.input),
        generation.count,
        generation.ready,
        [task.to_json() for task in generation.tasks],
        generation.cost,
        generation.created_at,
        generation.timeout_at,
        generation.finished_at,
    )
    await connection.execute(
        """
        INSERT INTO tags (organization, tag, target_type, target_id)
        SELECT $1, tag, 'generation', $2 FROM unnest($3::text[]) AS tag ON CONFLICT DO NOTHING
        """,
        generation.organization,
        generation.id,
        list(generation.tags),
    )


@read
async def organization_of(db: Database, generation_id: str) -> str | None:
    """Also of one whose state in flight was purged."""
    organization: str | None = await db.fetchval(
        """
        SELECT organization FROM generations_inflight WHERE id = $1
        UNION ALL SELECT organization FROM generations WHERE id = $1 LIMIT 1
        """,
        generation_id,
    )
    return organization


@write
async def purge(db: Database, before: int, limit: int) -> int:
    """Drops the state in flight of generations that ended before then; the library stays."""
    rows = await db.fetch(
        """
        DELETE FROM generations_inflight WHERE id = ANY (ARRAY(
            SELECT id FROM generations_inflight WHERE finished_at < $1
            ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED
        )) RETURNING id
        """,
        before,
        limit,
    )
    return len(rows)


@read
async def is_under_way(db: Database, organization: str, artifact_id: str) -> bool:
    """Whether the artifact is being made."""
    return bool(
        await db.fetchval(
            f"""
            SELECT EXISTS (
                SELECT FROM generation_tasks AS task
                JOIN generations_inflight AS owner ON owner.id = task.generation_id
                WHERE task.artifact_id = $2 AND owner.organization = $1
                  AND task.status IN {_UNDER_WAY})
            """,
            organization,
            artifact_id,
        )
    )


@read
async def wanted(db: Database, artifact_ids: Sequence[str]) -> set[str]:
    """Those of these artifacts that have a row, or whose task may still make one."""
    rows = await db.fetch(
        f"""
        SELECT id FROM artifacts WHERE id = ANY ($1)
        UNION
        SELECT artifact_id FROM generation_tasks
        WHERE artifact_id = ANY ($1) AND status IN {_UNDER_WAY}
        """,
        list(artifact_ids),
    )
    return {row["id"] for row in rows}


async def _tasks(db: Connection | Database, generation_ids: Sequence[str]) -> dict[str, list[Task]]:
    rows = await db.fetch(
        "SELECT * FROM generation_tasks WHERE generation_id = ANY ($1) ORDER BY position",
        list(generation_ids),
    )
    found: dict[str, list[Task]] = {generation_id: [] for generation_id in generation_ids}
    for row in rows:
        found[row["generation_id"]].append(_task(row))
    return found


def _generation(row: asyncpg.Record, tasks: dict[str, list[Task]]) -> Generation:
    return Generation(
        id=row["id"],
        organization=row["organization"],
        provider=row["provider"],
        kind=MediaKind(row["kind"]),
        model=row["model"],
        input=row["input"],
        count=row["count"],
        tags=_trimmed(row["tags"]),
        created_at=row["created_at"],
        timeout_at=row["timeout_at"],
        status=GenerationStatus(row["status"]),
        closes_at=row["closes_at"],
        finished_at=row["finished_at"],
        tasks=tuple(tasks[row["id"]]),
    )


def _trimmed(tags: list[str]) -> tuple[str, ...]:
    """Versions before this one took tags with white space around them; a generation of theirs may
    still be in flight."""
    return tuple(dict.fromkeys(found for tag in tags if (found := tag.strip())))


def _task(row: asyncpg.Record) -> Task:
    error, media, cost = row["error"], row["media"], row["cost"]
    return Task(
        artifact_id=row["artifact_id"],
        position=row["position"],
        status=TaskStatus(row["status"]),
        provider_task_id=row["provider_task_id"],
        former_ids=tuple(row["former_ids"]),
        attempt=row["attempt"],
        error=TaskError(TaskErrorCode(error["code"]), error["message"]) if error else None,
        media=Media(media["url"], media["facts"]) if media else None,
        cost=None if cost is None else Decimal(cost),
    )
