"""Small pictures of artifacts. They go with their artifact."""

from safelight.infra.db import Connection, Database, read, write


@read
async def find(db: Database, artifact_id: str) -> bytes | None:
    data: bytes | None = await db.fetchval(
        "SELECT data FROM artifact_thumbnails WHERE artifact_id = $1", artifact_id
    )
    return data


@write
async def keep(db: Connection | Database, artifact_id: str, data: bytes) -> None:
    """Nothing is kept for an artifact that was deleted meanwhile; of two the first stays."""
    await db.execute(
        "WITH there AS (SELECT id FROM artifacts WHERE id = $1 FOR KEY SHARE) "
        "INSERT INTO artifact_thumbnails (artifact_id, data) "
        "SELECT id, $2 FROM there ON CONFLICT DO NOTHING",
        artifact_id,
        data,
    )
