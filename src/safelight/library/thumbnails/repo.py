"""Small thumbnails, which are rows, and the rows of the large ones, which are objects."""

from safelight.infra.db import Database, read, write
from safelight.library.thumbnails.lifecycle import LargeThumbnail, SmallThumbnail

# An entry whose object was deleted or replaced is not shown any more, though its row follows a
# moment later. Where the index knows of nothing newer, the entry is what there is.
_SHOWN = """
    upload.organization = $1 AND upload.name = $2 AND NOT EXISTS (
        SELECT FROM object_indexed($1 || '/' || $2) AS object
        WHERE object.event_time > upload.event_time
          AND (NOT object.present
               OR object.metadata ->> 'idempotencyKey' <> upload.idempotency_key))
"""


@read
async def small(db: Database, organization: str, name: str) -> SmallThumbnail | None:
    row = await db.fetchrow(
        "SELECT idempotency_key, checksum, made_at, data FROM uploads AS upload "
        f"JOIN thumbnails USING (organization, name, idempotency_key) WHERE {_SHOWN}",
        organization,
        name,
    )
    return None if row is None else SmallThumbnail(*row.values())


@read
async def large(db: Database, organization: str, name: str) -> LargeThumbnail | None:
    """None: there is no such entry."""
    row = await db.fetchrow(
        "SELECT upload.idempotency_key, checksum, classification_status = 'done', key, made_at "
        "FROM uploads AS upload LEFT JOIN large_thumbnails AS made "
        "ON made.organization = upload.organization AND made.name = upload.name "
        "AND made.idempotency_key = upload.idempotency_key AND made.ends_at IS NULL "
        f"WHERE {_SHOWN}",
        organization,
        name,
    )
    return None if row is None else LargeThumbnail(*row.values())


@read
async def sizes(
    db: Database, organization: str, name: str, marker: str
) -> tuple[int | None, int | None]:
    """How many bytes the small one and the large one have, of those that are there."""
    row = await db.fetchrow(
        """
        SELECT
            (SELECT octet_length(data) FROM thumbnails
             WHERE organization = $1 AND name = $2 AND idempotency_key = $3) AS small,
            (SELECT object.size FROM large_thumbnails AS made
             CROSS JOIN LATERAL object_indexed(made.key) AS object
             WHERE made.organization = $1 AND made.name = $2 AND made.idempotency_key = $3
               AND made.ends_at IS NULL) AS large
        """,
        organization,
        name,
        marker,
    )
    return (None, None) if row is None else (row["small"], row["large"])


@write
async def begin(
    db: Database, key: str, organization: str, name: str, marker: str, now: int, ends_at: int
) -> None:
    """Before the object: one whose maker dies is known by this, and collected after `ends_at`."""
    await db.execute(
        "INSERT INTO large_thumbnails (key, organization, name, idempotency_key, made_at, ends_at) "
        "VALUES ($1, $2, $3, $4, $5, $6)",
        key,
        organization,
        name,
        marker,
        now,
        ends_at,
    )


@write
async def keep(db: Database, key: str, organization: str, name: str, marker: str) -> bool:
    """The object is there. False: it is for nothing, and not to be used."""
    kept: bool = await db.fetchval(
        "SELECT thumbnail_keep($1, $2, $3, $4)", key, organization, name, marker
    )
    return kept


@write
async def give_up(db: Database, key: str, now: int) -> None:
    """The store does not hold it, or it is for nothing: it is to be collected."""
    await db.execute("UPDATE large_thumbnails SET ends_at = $2 WHERE key = $1", key, now)


@read
async def ended(db: Database, now: int, limit: int) -> list[str]:
    """Keys of those that nobody uses."""
    rows = await db.fetch(
        "SELECT key FROM large_thumbnails WHERE ends_at <= $1 ORDER BY ends_at LIMIT $2", now, limit
    )
    return [row["key"] for row in rows]


@write
async def collected(db: Database, key: str) -> None:
    """After the object."""
    await db.execute("DELETE FROM large_thumbnails WHERE key = $1 AND ends_at IS NOT NULL", key)
