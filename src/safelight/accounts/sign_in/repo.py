"""The SQL of sessions, links, devices and failed attempts."""

from collections.abc import Mapping, Sequence

from safelight.accounts.access import OpenSession, Whence
from safelight.accounts.repo import Executor
from safelight.infra.db import Connection, read, write

_NOWHERE = Whence()
_MOST_SESSIONS = 200  # that anybody looks at; programs may open a new one each day

# Sessions


@write
async def touch_session(db: Executor, digest: bytes, now: int, expires_at: int) -> None:
    await db.execute(
        "UPDATE sessions SET seen_at = $2, expires_at = $3 WHERE digest = $1 AND seen_at < $2",
        digest,
        now,
        expires_at,
    )


@write
async def add_session(
    db: Executor,
    digest: bytes,
    user_id: str,
    now: int,
    expires_at: int,
    *,
    by_link: bool = False,
    whence: Whence = _NOWHERE,
) -> None:
    await db.execute(
        "INSERT INTO sessions (digest, user_id, created_at, seen_at, expires_at, by_link, address, "
        "agent) VALUES ($1, $2, $3, $3, $4, $5, $6, $7)",
        digest,
        user_id,
        now,
        expires_at,
        by_link,
        whence.address,
        whence.agent,
    )


@read
async def sessions_of(db: Executor, user_id: str, now: int, since: int) -> list[OpenSession]:
    """Those that still open something, none from `since` or before; the last seen first."""
    rows = await db.fetch(
        "SELECT digest, created_at, seen_at, address, agent FROM sessions "
        "WHERE user_id = $1 AND expires_at > $2 AND created_at > $3 "
        "ORDER BY seen_at DESC, created_at DESC, digest LIMIT $4",
        user_id,
        now,
        since,
        _MOST_SESSIONS,
    )
    return [
        OpenSession(
            row["digest"],
            row["created_at"],
            row["seen_at"],
            Whence(row["address"], row["agent"]),
        )
        for row in rows
    ]


@read
async def came_by_link(db: Executor, digest: bytes, user_id: str, since: int) -> bool:
    """Whether this is a session of the user's that a link opened after `since`."""
    return bool(
        await db.fetchval(
            "SELECT EXISTS (SELECT FROM sessions "
            "WHERE digest = $1 AND user_id = $2 AND by_link AND created_at > $3)",
            digest,
            user_id,
            since,
        )
    )


@write
async def end_session(db: Executor, digest: bytes) -> None:
    await db.execute("DELETE FROM sessions WHERE digest = $1", digest)


@write
async def end_sessions_of(db: Executor, user_id: str, *, but: bytes | None = None) -> None:
    await db.execute(
        "DELETE FROM sessions WHERE user_id = $1 AND digest IS DISTINCT FROM $2", user_id, but
    )


# Links


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
async def user_of_link(db: Executor, digest: bytes, now: int) -> str | None:
    """Whom it would sign in, by name."""
    username: str | None = await db.fetchval(
        "SELECT u.username FROM sign_in_links l JOIN users u ON u.id = l.user_id "
        "WHERE l.digest = $1 AND l.used_at IS NULL AND l.expires_at > $2 AND u.revoked_at IS NULL",
        digest,
        now,
    )
    return username


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


@write
async def end_links_of(db: Executor, user_id: str) -> None:
    await db.execute("DELETE FROM sign_in_links WHERE user_id = $1", user_id)


# Users who have not come yet


@write
async def expect_user(db: Executor, user_id: str, until: int, *, new: bool) -> None:
    """They go at that time unless they have come. One who came before stays."""
    await db.execute(
        "UPDATE users SET ends_at = $2 WHERE id = $1 AND ($3 OR ends_at IS NOT NULL)",
        user_id,
        until,
        new,
    )


@write
async def keep_user(db: Executor, link: bytes) -> None:
    """Whoever comes with this link stays. It is used afterwards: users are locked before links."""
    await db.execute(
        "UPDATE users SET ends_at = NULL "
        "WHERE id = (SELECT user_id FROM sign_in_links WHERE digest = $1)",
        link,
    )


@write
async def end_unused_users(db: Executor, now: int) -> list[tuple[str, str]]:
    """Who went, and from which organizations. A server of the version before notes nobody's coming,
    so whoever has a password, a session or a token stays too."""
    rows = await db.fetch(
        """
        WITH gone AS (
            SELECT u.id, u.username FROM users u
            WHERE u.ends_at <= $1 AND u.password_hash IS NULL
              AND NOT EXISTS (SELECT FROM sessions s WHERE s.user_id = u.id)
              AND NOT EXISTS (SELECT FROM tokens t WHERE t.maker_user = u.id)
            FOR UPDATE SKIP LOCKED
        ), links AS (
            DELETE FROM sign_in_links WHERE user_id IN (SELECT id FROM gone)
        ), ended AS (
            DELETE FROM users WHERE id IN (SELECT id FROM gone)
        ), removed AS (
            DELETE FROM memberships WHERE user_id IN (SELECT id FROM gone)
            RETURNING organization, user_id
        )
        SELECT gone.username, removed.organization
        FROM removed JOIN gone ON gone.id = removed.user_id
        """,
        now,
    )
    return [(row["username"], row["organization"]) for row in rows]


@read
async def is_unreachable(connection: Connection, user_id: str, organization: str, now: int) -> bool:
    """Whether nobody can come in as this user, and nothing is theirs outside this organization.
    Waits for whoever comes in just now, and holds off the next until commit."""
    await connection.execute("SELECT FROM users WHERE id = $1 FOR UPDATE", user_id)
    return bool(
        await connection.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM users u
                WHERE u.id = $1 AND u.revoked_at IS NULL
                  AND u.password_hash IS NULL AND NOT u.operator
                  AND NOT EXISTS (SELECT FROM sessions s WHERE s.user_id = u.id
                                  AND s.expires_at > $3)
                  AND NOT EXISTS (SELECT FROM sign_in_links l WHERE l.user_id = u.id
                                  AND l.used_at IS NULL AND l.expires_at > $3)
                  AND NOT EXISTS (SELECT FROM tokens t WHERE t.maker_user = u.id
                                  AND t.revoked_at IS NULL
                                  AND (t.expires_at IS NULL OR t.expires_at > $3))
                  AND NOT EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id
                                  AND m.organization <> $2)
            )
            """,
            user_id,
            organization,
            now,
        )
    )


# Devices


@read
async def knows_device(db: Executor, digest: bytes, username: str) -> bool:
    """Whether this browser has signed this user in before."""
    return bool(
        await db.fetchval(
            "SELECT EXISTS (SELECT FROM sign_in_devices d JOIN users u ON u.id = d.user_id "
            "WHERE d.digest = $1 AND u.username = $2)",
            digest,
            username,
        )
    )


@read
async def still_knows_device(db: Executor, digest: bytes, username: str) -> bool:
    """The same, once whoever renews it at this moment is done."""
    found = await db.fetchrow(
        "SELECT FROM sign_in_devices d JOIN users u ON u.id = d.user_id "
        "WHERE d.digest = $1 AND u.username = $2 FOR KEY SHARE OF d",
        digest,
        username,
    )
    return found is not None


@write
async def renew_device(
    connection: Connection, old: bytes | None, new: bytes, user_id: str, now: int
) -> list[str]:
    """What the browser was known for it is known for under the new secret only: one that somebody
    planted there is worth nothing afterwards. Returns whom else it knows, by name."""
    known = await connection.fetch(
        "UPDATE sign_in_devices d SET digest = $2 FROM users u "
        "WHERE d.digest = $1 AND u.id = d.user_id RETURNING u.id, u.username",
        old,
        new,
    )
    await connection.execute(
        "INSERT INTO sign_in_devices (digest, user_id, seen_at) VALUES ($1, $2, $3) "
        "ON CONFLICT (digest, user_id) DO UPDATE SET seen_at = excluded.seen_at",
        new,
        user_id,
        now,
    )
    return [row["username"] for row in known if row["id"] != user_id]


@write
async def forget_devices_of(db: Executor, user_id: str) -> None:
    await db.execute("DELETE FROM sign_in_devices WHERE user_id = $1", user_id)


# Failed attempts


@read
async def failures_since(db: Executor, subjects: Sequence[str], since: int) -> dict[str, list[int]]:
    """Of each subject."""
    rows = await db.fetch(
        "SELECT subject, array_agg(at) AS times FROM sign_in_failures "
        "WHERE subject = ANY ($1) AND at > $2 GROUP BY subject",
        subjects,
        since,
    )
    times = {row["subject"]: row["times"] for row in rows}
    return {subject: times.get(subject, []) for subject in subjects}


@write
async def add_failure(
    db: Executor, attempt: str, seen: Mapping[str, Sequence[int]], since: int, now: int
) -> bool:
    """Of each subject with the failures since then that somebody decided by. False: there are more
    by now, or newer ones."""
    counted = sorted(seen)
    return bool(
        await db.fetchval(
            "SELECT sign_in_count($1, $2, $3, $4, $5, $6)",
            attempt,
            counted,
            [len(seen[subject]) for subject in counted],
            [max(seen[subject], default=since) for subject in counted],
            since,
            now,
        )
    )


@write
async def move_failures(db: Executor, subjects: Mapping[str, str]) -> None:
    """From each of these subjects to the other."""
    await db.execute(
        "UPDATE sign_in_failures SET subject = moved.new "
        "FROM unnest($1::text[], $2::text[]) AS moved (old, new) WHERE subject = moved.old",
        list(subjects),
        list(subjects.values()),
    )


@write
async def clear_failures(db: Executor, attempt: str, subject: str | None) -> None:
    """An attempt that succeeded, and all others of one subject."""
    await db.execute(
        "DELETE FROM sign_in_failures WHERE attempt = $1 OR subject = $2", attempt, subject
    )


@write
async def purge_expired(
    db: Executor, now: int, *, failures_before: int, devices_before: int
) -> None:
    """Drops what no longer means anything; rows another sign-in is dropping are left to it."""
    for table, key, column, before in (
        ("sessions", "digest", "expires_at", now),
        ("sign_in_links", "digest", "expires_at", now),
        ("invitations", "digest", "expires_at", now),
        ("sign_in_devices", "digest, user_id", "seen_at", devices_before),
        ("sign_in_failures", "attempt", "at", failures_before),
    ):
        await db.execute(
            f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} "
            f"WHERE {column} <= $1 FOR UPDATE SKIP LOCKED)",
            before,
        )
