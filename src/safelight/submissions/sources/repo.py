"""Whether something that cannot be submitted yet is on its way."""

from safelight.infra.db import Database


async def upload_under_way(db: Database, organization: str, name: str) -> bool:
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM images WHERE organization = $1 AND name = $2
                  AND status IN ('UPLOADED', 'INGESTED')
                  AND NOT EXISTS (SELECT FROM delete_intents WHERE image_id = images.id))
            """,
            organization,
            name,
        )
    )


async def artifact_under_way(db: Database, organization: str, artifact_id: str) -> bool:
    return bool(
        await db.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM generation_tasks AS task
                JOIN generations_inflight AS owner ON owner.id = task.generation_id
                WHERE task.artifact_id = $2 AND owner.organization = $1
                  AND task.status IN ('pending', 'submitted', 'streaming'))
            """,
            organization,
            artifact_id,
        )
    )
