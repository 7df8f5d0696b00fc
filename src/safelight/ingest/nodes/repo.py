"""The table of nodes, and what becomes of images whose node is gone or back."""

from collections.abc import Sequence

from safelight.infra.db import Connection, Database, read, write
from safelight.ingest.jobs import OFFLOAD, PUT_BACK
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.nodes.lifecycle import (
    LOST_FROM,
    ORIGINAL_LOST,
    REVIVED_FROM,
    SILENT_SECONDS,
    Node,
    RevivedImage,
)
from safelight.ingest.repo import image_of

_LOOK_SECONDS = 5.0


@write
async def tell(
    db: Database, node: str, host: str, directory: str, version: str, *, answers: bool, works: bool
) -> None:
    await db.execute(
        "SELECT node_tells($1, $2, $3, $4, $5, $6)",
        node, host, directory, version, answers, works, timeout=_LOOK_SECONDS,
    )  # fmt: skip


@write
async def notice(db: Database) -> list[str]:
    """Those that are missing and of which nobody has told yet: whoever asks does."""
    rows = await db.fetch(
        """
        UPDATE nodes SET told = true
        WHERE NOT told AND node_silence(answered, worked) >= $1
          AND jobs_owner_of_next($2, id) IS NOT NULL RETURNING id
        """,
        SILENT_SECONDS,
        [OFFLOAD.name, PUT_BACK.name],
        timeout=_LOOK_SECONDS,
    )
    return [row["id"] for row in rows]


@read
async def nodes(db: Connection | Database) -> list[Node]:
    """All there are; one pass over the jobs that wait."""
    return [Node(**row) for row in await db.fetch("SELECT * FROM nodes_shown()")]


@read
async def hold(connection: Connection, node: str) -> None:
    """Until the transaction ends it cannot tell of itself."""
    await connection.execute("SELECT FROM nodes WHERE id = $1 FOR UPDATE", node)


@write
async def forget(db: Database, node: str) -> None:
    """If it is silent and nothing waits for it, but what it does by the clock."""
    await db.execute(
        """
        WITH gone AS (
            DELETE FROM nodes WHERE id = $1 AND node_silence(answered, worked) >= $2
              AND jobs_owner_of_next($3, id) IS NULL RETURNING id
        )
        SELECT node_ticks_end(id) FROM gone
        """,
        node,
        SILENT_SECONDS,
        [OFFLOAD.name, PUT_BACK.name],
    )


# Giving up


@read
async def owner_of_next(db: Database, node: str) -> str | None:
    """An organization with something that waits for the node."""
    found: str | None = await db.fetchval(
        "SELECT jobs_owner_of_next($1, $2)", [OFFLOAD.name, PUT_BACK.name], node
    )
    return found


@write
async def lose(
    connection: Connection, node: str, organization: str, limit: int, now: int
) -> list[tuple[str, str]]:
    """Some of the organization's images that only that node had; ids and names."""
    row = await connection.fetchrow(
        "SELECT * FROM images_lost($1, $2, $3, $4, $5)", node, organization, LOST_FROM, limit, now
    )
    assert row is not None  # noqa: S101 - a function with OUT parameters answers one row
    return list(zip(row["ids"] or (), row["names"] or (), strict=True))


@write
async def not_put_back(connection: Connection, node: str, organization: str, limit: int) -> None:
    """What a bucket was to be given again from that node's files."""
    await connection.execute(
        "SELECT images_not_put_back($1, $2, $3, $4)",
        node, organization, limit, ORIGINAL_LOST.to_json(),
    )  # fmt: skip


# Coming back


@read
async def given_up(db: Database, images: Sequence[str]) -> dict[str, list[str]]:
    """Those that were given up with their machine, by organization."""
    rows = await db.fetch(
        "SELECT organization, array_agg(id) AS ids FROM images WHERE id = ANY($1) "
        "AND status = ANY($2) AND node IS NOT NULL GROUP BY organization",
        images,
        REVIVED_FROM,
    )
    return {row["organization"]: row["ids"] for row in rows}


@write
async def revive(
    connection: Connection, organization: str, images: Sequence[str], node: str, now: int
) -> list[RevivedImage]:
    rows = await connection.fetch(
        "SELECT * FROM images_revived($1, $2, $3, $4, $5)",
        organization, images, REVIVED_FROM, node, now,
    )  # fmt: skip
    return [RevivedImage(**row) for row in rows]


@read
async def with_file(db: Database, images: Sequence[str]) -> list[Image]:
    """Those whose file is needed: the only copy of one that is on its way or was given up, or what
    a bucket may have to be given again."""
    rows = await db.fetch(
        """
        SELECT * FROM images WHERE id = ANY($1)
          AND (status = ANY($2) OR status = ANY($3) AND node IS NOT NULL
               OR id IN (SELECT * FROM images_unsettled($1)))
        ORDER BY id
        """,
        images,
        [ImageStatus.UPLOADED, ImageStatus.INGESTED],
        REVIVED_FROM,
    )
    return [image_of(row) for row in rows]
