"""The SQL of sign-in links and failed attempts."""

from safelight.accounts.repo import Executor
from safelight.infra.db import Connection, read, write


@write
async def add_link(db: Executor, digest: bytes, user_id: str, now: int, expires_at: int) -> None:
    await db.execute(
        "INSERT INTO sign_in_links (digest, user_id, created_at, expires_at) "
        "VALUES ($1, $2, $3, $4)",
        digest,
        user_id,
        now,
        expires_at,
    )


@read
async def has_live_link(db: Executor, user_id: str, now: int) -> bool:
    return bool(
        await db.fetchval(
            "SELECT EXISTS (SELECT FROM sign_in_links "
            "WHERE user_id = $1 AND used_at IS NULL AND expires_at > $2)",
            user_id,
            now,
        )
    )


@write
async def use_link(db: Executor, digest: bytes, now: int) -> str | None:
    """The user it signs in, once."""
    user_id: str | None = await db.fetchval(
        "UPDATE sign_in_links l SET used_at = $2 FROM users u "
        "WHERE l.digest = $1 AND l.used_at IS NULL AND l.expires_at > $2 "
        "AND u.id = l.user_id AND u.revoked_at IS NULL RETURNING l.user_id",
        digest,
        now,
    )
    return user_id


@read
async def lock_attempts(connection: Connection, subjects: list[str]) -> None:
    for subject in subjects:
        await connection.execute("SELECT sign_in_lock($1)", subject)


@read
async def failures_since(db: Executor, subjects: list[str], since: int) -> dict[str, list[int]]:
    rows = await db.fetch(
        "SELECT subject, array_agg(at) AS times FROM sign_in_failures "
        "WHERE subject = ANY ($1) AND at > $2 GROUP BY subject",
        subjects,
        since,
    )
    return {row["subject"]: row["times"] for row in rows}


@write
async def add_failure(db: Executor, attempt: str, subjects: list[str], now: int) -> None:
    await db.execute(
        "INSERT INTO sign_in_failures (attempt, subject, at) SELECT $1, unnest($2::text[]), $3",
        attempt,
        subjects,
        now,
    )


@write
async def clear_failures(db: Executor, attempt: str, subject: str) -> None:
    """An attempt that succeeded, and all others of one subject."""
    await db.execute(
        "DELETE FROM sign_in_failures WHERE attempt = $1 OR subject = $2", attempt, subject
    )


@write
async def purge_expired(db: Executor, now: int, failures_before: int) -> None:
    """Drops what no longer means anything; rows another sign-in is dropping are left to it."""
    for table, key, column, before in (
        ("sessions", "digest", "expires_at", now),
        ("sign_in_links", "digest", "expires_at", now),
        ("sign_in_failures", "attempt", "at", failures_before),
    ):
        await db.execute(
            f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} "
            f"WHERE {column} <= $1 FOR UPDATE SKIP LOCKED)",
            before,
        )
