"""What the gallery asks of the database across features. Reads only."""

import asyncpg

from safelight.infra.db import Database
from safelight.ingest.lifecycle import Image, ImageStatus

_ON_THEIR_WAY = """
WITH waiting AS MATERIALIZED ({candidates}),
candidate AS MATERIALIZED (
    SELECT * FROM waiting ORDER BY created_at DESC, id DESC LIMIT 5 * $3
)
SELECT * FROM candidate
WHERE (status <> 'FAILED' OR created_at >= $2)
  AND NOT EXISTS (SELECT FROM uploads
                  WHERE uploads.organization = $1 AND uploads.name = candidate.name)
  AND NOT EXISTS (SELECT FROM delete_intents WHERE image_id = candidate.id)
  AND NOT EXISTS (SELECT FROM tombstones
                  WHERE tombstones.organization = $1 AND tombstones.name = candidate.name
                    AND tombstones.event_time >= candidate.created_at)
  AND NOT EXISTS (SELECT FROM images AS newer
                  WHERE newer.organization = $1 AND newer.name = candidate.name
                    AND (newer.created_at, newer.id) > (candidate.created_at, candidate.id))
ORDER BY created_at DESC, id DESC LIMIT $3
"""
# By state: few images are in these however many there are.
_ALL = _ON_THEIR_WAY.format(
    candidates="SELECT * FROM images WHERE organization = $1 AND status IN ('INGESTED', 'FAILED')"
)
# By name there is time to look for those, too, that are stored and whose event is not read yet.
_NAMED = _ON_THEIR_WAY.format(
    candidates="""
    SELECT * FROM images WHERE organization = $1 AND name = ANY($4)
       AND (status IN ('INGESTED', 'FAILED')
            OR EXISTS (SELECT FROM objects WHERE key = $1 || '/' || images.name AND present
                         AND metadata ->> 'imageId' = images.id))
    """
)

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
    db: Database, organization: str, names: list[str] | None, *, failed_since: int, limit: int
) -> list[Image]:
    """Newest first: images that are received but not in the library, and those that failed on the
    way to it. What was deleted, or sent again under the same name, is left out."""
    values = (organization, failed_since, limit)
    rows = await (db.fetch(_ALL, *values) if names is None else db.fetch(_NAMED, *values, names))
    return [_image(row) for row in rows]


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


def _image(row: asyncpg.Record) -> Image:
    values = {key: row[key] for key in Image.__dataclass_fields__}
    values["idempotency_key"] = str(values["idempotency_key"])
    values["status"] = ImageStatus(values["status"])
    return Image(**values)
