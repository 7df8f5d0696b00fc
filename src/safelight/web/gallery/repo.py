"""What pages ask of the database across features. Reads only."""

from safelight.infra.db import Database
from safelight.ingest.lifecycle import Status
from safelight.ingest.repo import Image

# The states come first and by themselves: few rows are in them however many images there are.
_ON_THEIR_WAY = """
WITH waiting AS MATERIALIZED (
    SELECT * FROM images WHERE organization = $1 AND status IN ('INGESTED', 'FAILED')
)
SELECT * FROM waiting
WHERE (status = 'INGESTED' OR created_at >= $2)
  AND ($3::text[] IS NULL OR name = ANY($3))
  AND NOT EXISTS (SELECT FROM uploads
                  WHERE uploads.organization = $1 AND uploads.name = waiting.name)
  AND NOT EXISTS (SELECT FROM tombstones
                  WHERE tombstones.organization = $1 AND tombstones.name = waiting.name
                    AND tombstones.event_time >= waiting.created_at)
  AND NOT EXISTS (SELECT FROM images newer
                  WHERE newer.organization = $1 AND newer.name = waiting.name
                    AND (newer.created_at, newer.id) > (waiting.created_at, waiting.id))
ORDER BY created_at DESC, id DESC LIMIT $4
"""

# One step through the index per label, instead of a walk over all uploads.
_LABELS = """
WITH RECURSIVE labels AS (
    (SELECT classification_label AS label FROM uploads
     WHERE organization = $1 AND classification_label IS NOT NULL
     ORDER BY classification_label LIMIT 1)
    UNION ALL
    SELECT (SELECT classification_label FROM uploads
            WHERE organization = $1 AND classification_label > labels.label
            ORDER BY classification_label LIMIT 1)
    FROM labels WHERE labels.label IS NOT NULL
)
SELECT label FROM labels WHERE label IS NOT NULL LIMIT $2
"""


async def on_their_way(
    db: Database, organization: str, *, failed_since: int, names: list[str] | None, limit: int
) -> list[Image]:
    """Newest first: images that are received but not in the library, and those that failed on the
    way to it. What was deleted, or sent again under the same name, is left out."""
    rows = await db.fetch(_ON_THEIR_WAY, organization, failed_since, names, limit)
    images = []
    for row in rows:
        values = {key: row[key] for key in Image.__dataclass_fields__}
        values["idempotency_key"] = str(values["idempotency_key"])
        images.append(Image(**{**values, "status": Status(values["status"])}))
    return images


async def troubles(db: Database, organization: str, names: list[str]) -> dict[str, str]:
    """By name: the words of the last attempt to classify it that failed."""
    rows = await db.fetch(
        """
        SELECT name, error ->> 'message' AS words
        FROM uploads JOIN classification_runs USING (organization, name, idempotency_key, run)
        WHERE organization = $1 AND name = ANY($2) AND error IS NOT NULL
        """,
        organization,
        names,
    )
    return {row["name"]: row["words"] for row in rows if row["words"]}


async def labels(db: Database, organization: str, limit: int) -> list[str]:
    rows = await db.fetch(_LABELS, organization, limit)
    return [row["label"] for row in rows]
