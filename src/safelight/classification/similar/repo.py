"""The embeddings, compared, and groups of entries that look alike. Embeddings are written by
sql/classification.sql, with the results."""

from collections.abc import Sequence
from typing import Any

from safelight.infra.db import Database, read, write


@read
async def embedding(
    db: Database, organization: str, name: str, marker: str
) -> tuple[bytes, str] | None:
    """Of that very upload, and the model that gave it."""
    row = await db.fetchrow(
        "SELECT vector, model FROM embeddings "
        "WHERE organization = $1 AND name = $2 AND idempotency_key = $3",
        organization,
        name,
        marker,
    )
    return None if row is None else (row["vector"], row["model"])


@read
async def nearest(
    db: Database, organization: str, name: str, vector: bytes, model: str, limit: int
) -> list[tuple[str, str, float]]:
    """Names, markers and similarity of those that are most like it, every one of the organization
    compared. Their length is 1, so that an inner product is the cosine; those of other models say
    nothing. Only names go through the sort, and what stands beside them is asked of few."""
    rows = await db.fetch(
        """
        SELECT name, idempotency_key, least(greatest(-product, 0), 1) AS similarity FROM (
            SELECT name, idempotency_key, vector <#> $3 AS product FROM embeddings
            WHERE organization = $1 AND name <> $2 AND model = $4
            ORDER BY product LIMIT $5) AS nearest
        ORDER BY product
        """,
        organization,
        name,
        vector,
        model,
        limit,
    )
    return [(row["name"], row["idempotency_key"], row["similarity"]) for row in rows]


@read
async def known(db: Database) -> dict[str, int]:
    """Up to which seq each organization's entries have been compared."""
    rows = await db.fetch("SELECT organization, seq FROM twins_known")
    return {row["organization"]: row["seq"] for row in rows}


@write
async def compare(
    db: Database,
    organization: str,
    labelled: Sequence[dict[str, Any]],
    end: int,
    *,
    embeds: bool,
    least: float,
) -> int:
    """Of names, markers and seqs; answers the seq that was reached, which is `end` unless one has
    to wait for its embedding."""
    reached: int = await db.fetchval(
        "SELECT classification_compare($1, $2, $3, $4, $5)",
        organization,
        list(labelled),
        end,
        embeds,
        least,
    )
    return reached


@read
async def groups(
    db: Database, organization: str, before: int | None, limit: int, most: int
) -> list[tuple[int, int, list[tuple[str, str, float]]]]:
    """The last found first: their numbers, how many are in each, and the first of these by name,
    with markers and similarity."""
    rows = await db.fetch(
        """
        SELECT found.twins, count, name, idempotency_key, similarity FROM (
            SELECT twins, count(*) AS count FROM twins
            WHERE organization = $1 AND ($2::bigint IS NULL OR twins < $2)
            GROUP BY twins HAVING count(*) > 1 ORDER BY twins DESC LIMIT $3) AS found
        CROSS JOIN LATERAL (
            SELECT name, idempotency_key, similarity FROM twins
            WHERE organization = $1 AND twins.twins = found.twins ORDER BY name LIMIT $4) AS each
        ORDER BY twins DESC, name
        """,
        organization, before, limit, most,
    )  # fmt: skip
    found: dict[int, tuple[int, int, list[tuple[str, str, float]]]] = {}
    for row in rows:
        group = found.setdefault(row["twins"], (row["twins"], row["count"], []))
        group[2].append((row["name"], row["idempotency_key"], row["similarity"]))
    return list(found.values())
