"""Values with an end: counters, windows, budgets. Expiry is judged by the caller's clock (`now`,
epoch milliseconds): a value past its end is not there, whether or not it was swept."""

from collections.abc import Mapping, Sequence
from typing import Any

from safelight.infra.db import Connection, Database, read, write

# No end, or one in the future.
_ALIVE = "(kv.expires_at IS NULL OR kv.expires_at > $2)"


@read
async def get(db: Connection | Database, key: str, *, now: int) -> Any | None:
    return await db.fetchval("SELECT kv_get($1, $2)", key, now)


@read
async def get_many(db: Connection | Database, keys: Sequence[str], *, now: int) -> list[Any]:
    """Those that are there."""
    rows = await db.fetch(
        "SELECT value FROM unnest($1::text[]) AS wanted (key), kv_get(wanted.key, $2) AS value "
        "WHERE value IS NOT NULL",
        list(keys),
        now,
    )
    return [row["value"] for row in rows]


@write
async def put(
    db: Connection | Database, key: str, value: Any, *, now: int, ttl_ms: int | None = None
) -> None:
    await db.execute(
        """
        INSERT INTO kv (key, value, expires_at) VALUES ($1, $2, $3)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
        """,
        key,
        value,
        _end(now, ttl_ms),
    )


@write
async def delete(db: Connection | Database, key: str) -> None:
    await db.execute("DELETE FROM kv WHERE key = $1", key)


@write
async def compare_and_set(
    db: Connection | Database,
    key: str,
    expected: Any | None,
    value: Any,
    *,
    now: int,
    ttl_ms: int | None = None,
) -> bool:
    """Whether the value was `expected` (None: absent or past its end) and now is `value`."""
    if expected is None:
        statement = f"""
            INSERT INTO kv (key, value, expires_at) VALUES ($1, $3, $4)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
            WHERE NOT {_ALIVE} RETURNING true
            """
        changed = await db.fetchval(statement, key, now, value, _end(now, ttl_ms))
    else:
        statement = f"""
            UPDATE kv SET value = $3, expires_at = $4
            WHERE key = $1 AND {_ALIVE} AND value = $5 RETURNING true
            """
        changed = await db.fetchval(statement, key, now, value, _end(now, ttl_ms), expected)
    return bool(changed)


@write
async def increment(
    db: Connection | Database,
    key: str,
    amounts: Mapping[str, int],
    *,
    now: int,
    ttl_ms: int | None = None,
) -> dict[str, Any]:
    """Adds to numeric fields in one statement, so that no update is lost; returns the new value.
    Absent fields count from zero, others stay."""
    value: dict[str, Any] = await db.fetchval(
        f"""
        INSERT INTO kv (key, value, expires_at) VALUES ($1, $3, $4)
        ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at, value =
            CASE WHEN {_ALIVE} THEN kv.value || coalesce((
                SELECT jsonb_object_agg(
                    field, coalesce((kv.value ->> field)::numeric, 0) + amount::numeric)
                FROM jsonb_each_text(excluded.value) AS added(field, amount)
            ), '{{}}') ELSE excluded.value END
        RETURNING value
        """,
        key,
        now,
        dict(amounts),
        _end(now, ttl_ms),
    )
    return value


@write
async def sweep(db: Connection | Database, *, now: int, limit: int = 10_000) -> int:
    """Deletes values past their end; how many."""
    rows = await db.fetch(
        """
        DELETE FROM kv WHERE key = ANY (ARRAY(
            SELECT key FROM kv WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
            FOR UPDATE SKIP LOCKED
        )) RETURNING key
        """,
        now,
        limit,
    )
    return len(rows)


def _end(now: int, ttl_ms: int | None) -> int | None:
    return None if ttl_ms is None else now + ttl_ms
