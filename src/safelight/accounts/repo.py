"""The SQL of organizations, members and tokens; that of invitations and of signing in stands in
their own folders. Functions take a connection inside a transaction, or the database."""

from typing import Any

from asyncpg import Record

from safelight.accounts.access import Grant, Member, Role, Token, User, UserSession
from safelight.infra.db import Connection, Database, read, write

Executor = Connection | Database


# Organizations


@read
async def lock_first_start(connection: Connection) -> None:
    await connection.execute("SELECT first_start_lock()")


@read
async def is_set_up(db: Executor) -> bool:
    """Whether a server has started on this database before."""
    if await db.fetchval("SELECT to_regclass('organizations') IS NULL"):
        return False
    return bool(await organizations(db))


@read
async def organizations(db: Executor) -> list[tuple[str, int]]:
    rows = await db.fetch("SELECT id, created_at FROM organizations ORDER BY id")
    return [(row["id"], row["created_at"]) for row in rows]


@read
async def known_organizations(db: Executor, ids: list[str]) -> set[str]:
    """Those of them that there are."""
    rows = await db.fetch("SELECT id FROM organizations WHERE id = ANY($1)", ids)
    return {row["id"] for row in rows}


@read
async def organization_after(db: Executor, organization: str) -> str | None:
    """The next one, for whoever goes through all of them."""
    found: str | None = await db.fetchval(
        "SELECT id FROM organizations WHERE id > $1 ORDER BY id LIMIT 1", organization
    )
    return found


@write
async def add_organization(db: Executor, organization: str, now: int) -> bool:
    """False when it was there already."""
    done = await db.execute(
        "INSERT INTO organizations (id, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        organization,
        now,
    )
    return done == "INSERT 0 1"


@read
async def lock_organization(connection: Connection, organization: str) -> bool:
    """Changes of one organization's members and tokens come one after the other. False: there is
    no such organization."""
    row = await connection.fetchrow(
        "SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE", organization
    )
    return row is not None


# Users and members

_USER = """
    SELECT u.*, (SELECT coalesce(jsonb_object_agg(m.organization, m.role), '{}')
                 FROM memberships m WHERE m.user_id = u.id) AS roles
    FROM users u
"""


@read
async def users(db: Executor) -> list[User]:
    return [_user(row) for row in await db.fetch(_USER + "ORDER BY u.username")]


@read
async def user(db: Executor, user_id: str) -> User | None:
    return _user_or_none(await db.fetchrow(_USER + "WHERE u.id = $1", user_id))


@read
async def lock_user(connection: Connection, user_id: str) -> User | None:
    """Waits for a change of this user under way and holds off the next until commit."""
    return _user_or_none(
        await connection.fetchrow(_USER + "WHERE u.id = $1 FOR SHARE OF u", user_id)
    )


@read
async def user_named(db: Executor, username: str) -> User | None:
    return _user_or_none(await db.fetchrow(_USER + "WHERE u.username = $1", username))


@read
async def session_user(db: Executor, digest: bytes, now: int, since: int) -> UserSession | None:
    """Whose session this is; none from `since` or before."""
    row = await db.fetchrow(
        _USER.replace(
            "SELECT u.*", "SELECT u.*, s.created_at AS opened_at, s.seen_at, s.expires_at"
        )
        + "JOIN sessions s ON s.user_id = u.id "
        "WHERE s.digest = $1 AND s.expires_at > $2 AND s.created_at > $3 "
        "AND u.revoked_at IS NULL",
        digest,
        now,
        since,
    )
    if row is None:
        return None
    return UserSession(_user(row), row["opened_at"], row["seen_at"], row["expires_at"])


@write
async def add_user(
    db: Executor, user_id: str, username: str, now: int, *, operator: bool = False
) -> bool:
    """False when the name is taken."""
    done = await db.execute(
        "INSERT INTO users (id, username, operator, created_at) VALUES ($1, $2, $3, $4) "
        "ON CONFLICT (username) DO NOTHING",
        user_id,
        username,
        operator,
        now,
    )
    return done == "INSERT 0 1"


@write
async def reinstate_user(db: Executor, user_id: str, *, operator: bool) -> None:
    await db.execute(
        "UPDATE users SET revoked_at = NULL, operator = $2 WHERE id = $1", user_id, operator
    )


@write
async def set_password(db: Executor, user_id: str, password_hash: str) -> None:
    await db.execute("UPDATE users SET password_hash = $2 WHERE id = $1", user_id, password_hash)


@write
async def revoke_user(connection: Connection, user_id: str, now: int) -> None:
    """Nothing of the user opens anything afterwards, not even if the name is used again."""
    await connection.execute(
        "UPDATE users SET revoked_at = $2, password_hash = NULL, operator = false WHERE id = $1",
        user_id,
        now,
    )
    for table in ("sessions", "sign_in_links", "sign_in_devices", "memberships"):
        await connection.execute(f"DELETE FROM {table} WHERE user_id = $1", user_id)
    await connection.execute(
        "UPDATE tokens SET revoked_at = $2 WHERE maker_user = $1 AND revoked_at IS NULL",
        user_id,
        now,
    )


@read
async def members(
    db: Executor, organization: str, *, after: str | None, limit: int
) -> list[Member]:
    rows = await db.fetch(
        """
        SELECT u.username, m.role, m.created_at
        FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.organization = $1 AND ($2::text IS NULL OR u.username > $2)
        ORDER BY u.username LIMIT $3
        """,
        organization,
        after,
        limit,
    )
    return [Member(row["username"], Role(row["role"]), row["created_at"]) for row in rows]


@read
async def last_seen(db: Executor, organization: str, usernames: list[str]) -> dict[str, int]:
    """Of those who are signed in somewhere, by the hour."""
    rows = await db.fetch(
        """
        SELECT u.username, max(s.seen_at) AS seen_at
        FROM memberships m JOIN users u ON u.id = m.user_id JOIN sessions s ON s.user_id = u.id
        WHERE m.organization = $1 AND u.username = ANY ($2) GROUP BY u.username
        """,
        organization,
        usernames,
    )
    return {row["username"]: row["seen_at"] for row in rows}


@read
async def other_admins(connection: Connection, organization: str, user_id: str) -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM memberships "
        "WHERE organization = $1 AND role = 'admin' AND user_id <> $2",
        organization,
        user_id,
    )
    return count


@write
async def put_member(db: Executor, organization: str, user_id: str, role: Role, now: int) -> Member:
    row = await db.fetchrow(
        """
        WITH put AS (
            INSERT INTO memberships (organization, user_id, role, created_at)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT (organization, user_id) DO UPDATE SET role = excluded.role
            RETURNING user_id, role, created_at
        )
        SELECT u.username, put.role, put.created_at FROM put JOIN users u ON u.id = put.user_id
        """,
        organization,
        user_id,
        role,
        now,
    )
    assert row is not None  # noqa: S101 - the statement returns what it wrote
    return Member(row["username"], Role(row["role"]), row["created_at"])


@write
async def remove_member(db: Executor, organization: str, user_id: str) -> None:
    await db.execute(
        "DELETE FROM memberships WHERE organization = $1 AND user_id = $2", organization, user_id
    )


@write
async def remove_all_members(db: Executor, organization: str) -> None:
    await db.execute("DELETE FROM memberships WHERE organization = $1", organization)


# Tokens


@write
async def add_token(db: Executor, token: Token, digest: bytes) -> None:
    await db.execute(
        """
        INSERT INTO tokens (id, digest, organization, role, operator, name, created_by, maker_user,
                            maker_token, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        """,
        token.id,
        digest,
        token.organization,
        token.grant.role,
        token.grant.operator,
        token.name,
        token.created_by,
        token.maker_user,
        token.maker_token,
        token.created_at,
        token.expires_at,
    )


@read
async def token_with(db: Executor, digest: bytes, now: int) -> Token | None:
    """The live token of this digest, with what its maker holds now."""
    row = await db.fetchrow(
        """
        SELECT t.*, m.role AS maker_role, u.operator AS maker_operator
        FROM tokens t
        LEFT JOIN users u ON u.id = t.maker_user AND u.revoked_at IS NULL
        LEFT JOIN memberships m ON m.user_id = u.id AND m.organization = t.organization
        WHERE t.digest = $1 AND t.revoked_at IS NULL
          AND (t.expires_at IS NULL OR t.expires_at > $2)
        """,
        digest,
        now,
    )
    if row is None:
        return None
    holds = Grant(Role(row["maker_role"]), row["maker_operator"]) if row["maker_role"] else None
    return _token(row, holds)


@read
async def token(db: Executor, token_id: str) -> Token | None:
    row = await db.fetchrow("SELECT * FROM tokens WHERE id = $1", token_id)
    return None if row is None else _token(row)


@read
async def knows_digest(db: Executor, digest: bytes) -> bool:
    """Revoked and expired ones count: they were known once."""
    return bool(await db.fetchval("SELECT EXISTS (SELECT FROM tokens WHERE digest = $1)", digest))


@read
async def tokens(
    db: Executor, organization: str | None, *, before: tuple[int, str] | None, limit: int | None
) -> list[Token]:
    """Newest first, of one organization or of all."""
    at, token_id = before or (None, None)
    rows = await db.fetch(
        """
        SELECT * FROM tokens
        WHERE ($1::text IS NULL OR organization = $1)
          AND ($2::bigint IS NULL OR (created_at, id) < ($2, $3))
        ORDER BY created_at DESC, id DESC LIMIT $4
        """,
        organization,
        at,
        token_id,
        limit,
    )
    return [_token(row) for row in rows]


@write
async def revoke_token(db: Executor, token_id: str, now: int) -> None:
    """Also revokes what this token made, and what those made."""
    await db.execute(
        """
        WITH RECURSIVE family (id) AS (
            SELECT $1::text UNION SELECT t.id FROM tokens t JOIN family f ON t.maker_token = f.id
        )
        UPDATE tokens SET revoked_at = $2
        WHERE id IN (SELECT id FROM family) AND revoked_at IS NULL
        """,
        token_id,
        now,
    )


@write
async def revoke_all_tokens(db: Executor, organization: str, now: int) -> None:
    await db.execute(
        "UPDATE tokens SET revoked_at = $2 WHERE organization = $1 AND revoked_at IS NULL",
        organization,
        now,
    )


# The instance


@write
async def keep_first(db: Executor, key: str, value: str) -> str:
    """Stores the value unless there is one; returns the one that stays."""
    await db.execute(
        "INSERT INTO instance (key, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", key, value
    )
    kept: str = await db.fetchval("SELECT value FROM instance WHERE key = $1", key)
    return kept


def _user_or_none(row: Record | None) -> User | None:
    return None if row is None else _user(row)


def _user(row: Record) -> User:
    roles: dict[str, Any] = row["roles"]
    return User(
        row["id"],
        row["username"],
        row["operator"],
        row["password_hash"],
        row["created_at"],
        row["revoked_at"],
        {organization: Role(roles[organization]) for organization in sorted(roles)},
    )


def _token(row: Record, maker_grant: Grant | None = None) -> Token:
    return Token(
        row["id"],
        row["organization"],
        row["name"],
        Grant(Role(row["role"]), row["operator"]),
        row["created_by"],
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
        row["maker_user"],
        row["maker_token"],
        maker_grant,
    )
