"""Images that are not in the library yet, found by their bytes."""

from collections.abc import Sequence

from safelight.infra.db import Database, read

_MOST_WAITING, _MOST_JUST_STORED = 5_000, 250  # are looked at, the newest


@read
async def with_checksums(
    db: Database, organization: str, checksums: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Checksum, name and id of images with these bytes that are on their way, or were stored a
    moment ago, under a name that was not deleted since."""
    rows = await db.fetch(
        """
        SELECT checksum, name, id FROM (
            SELECT checksum, name, id FROM images
            WHERE organization = $1 AND status = 'INGESTED'
            ORDER BY created_at DESC, id DESC LIMIT $3
        ) AS waiting
        WHERE checksum = ANY($2) AND NOT EXISTS (SELECT FROM delete_intents WHERE image_id = id)
        UNION ALL
        SELECT checksum, name, id FROM (
            SELECT checksum, name, id, status FROM images WHERE organization = $1
            ORDER BY created_at DESC, id DESC LIMIT $4
        ) AS recent
        WHERE checksum = ANY($2) AND status = 'STORED'
          AND EXISTS (SELECT FROM object_indexed($1 || '/' || name) AS object
                      WHERE object.present AND object.metadata ->> 'imageId' = id)
        """,
        organization,
        checksums,
        _MOST_WAITING,
        _MOST_JUST_STORED,
    )
    return [(row["checksum"], row["name"], row["id"]) for row in rows]
