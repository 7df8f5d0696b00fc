"""The embeddings, compared. Their table is written by sql/classification.sql, with the results."""

from safelight.infra.db import Database, read


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
