"""The SQL of invitations. One that has expired, or whose maker could not make it any more, is not
there for anybody who looks."""

from asyncpg import Record

from safelight.accounts.access import Invitation, Maker, Role
from safelight.accounts.repo import Executor
from safelight.infra.db import read, write

# An admin who leaves, or a token that is revoked, must not come back in by a link kept for later.
_STANDS = """
    i.expires_at > $1
    AND (i.maker_user IS NULL OR EXISTS (
        SELECT FROM memberships m
        WHERE m.organization = i.organization AND m.user_id = i.maker_user AND m.role = 'admin'))
    AND (i.maker_token IS NULL OR EXISTS (
        SELECT FROM tokens t WHERE t.id = i.maker_token AND t.revoked_at IS NULL))
"""


@write
async def put(db: Executor, invitation: Invitation, maker: Maker, digest: bytes) -> None:
    """In the place of the one that this username had there, whose link ends."""
    await db.execute(
        """
        INSERT INTO invitations (organization, username, role, digest, made_by, maker_user,
                                 maker_token, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (organization, username) DO UPDATE SET
            role = excluded.role, digest = excluded.digest, made_by = excluded.made_by,
            maker_user = excluded.maker_user, maker_token = excluded.maker_token,
            created_at = excluded.created_at, expires_at = excluded.expires_at
        """,
        invitation.organization,
        invitation.username,
        invitation.role,
        digest,
        invitation.made_by,
        maker.user,
        maker.token,
        invitation.created_at,
        invitation.expires_at,
    )


@read
async def with_digest(db: Executor, digest: bytes, now: int) -> Invitation | None:
    row = await db.fetchrow(
        f"SELECT * FROM invitations i WHERE i.digest = $2 AND {_STANDS}", now, digest
    )
    return None if row is None else _invitation(row)


@read
async def of_organization(
    db: Executor, organization: str, now: int, *, after: str | None, limit: int
) -> list[Invitation]:
    rows = await db.fetch(
        f"""
        SELECT * FROM invitations i
        WHERE i.organization = $2 AND ($3::text IS NULL OR i.username > $3) AND {_STANDS}
        ORDER BY i.username LIMIT $4
        """,
        now,
        organization,
        after,
        limit,
    )
    return [_invitation(row) for row in rows]


@read
async def of_user(db: Executor, username: str, now: int) -> list[Invitation]:
    rows = await db.fetch(
        f"SELECT * FROM invitations i WHERE i.username = $2 AND {_STANDS} ORDER BY i.organization",
        now,
        username,
    )
    return [_invitation(row) for row in rows]


@write
async def take(db: Executor, digest: bytes, now: int) -> Invitation | None:
    """The invitation, once."""
    row = await db.fetchrow(
        f"DELETE FROM invitations i WHERE i.digest = $2 AND {_STANDS} RETURNING i.*", now, digest
    )
    return None if row is None else _invitation(row)


@write
async def remove(db: Executor, organization: str, username: str) -> bool:
    """Whether there was one."""
    done = await db.execute(
        "DELETE FROM invitations WHERE organization = $1 AND username = $2", organization, username
    )
    return done == "DELETE 1"


@write
async def remove_all_into(db: Executor, organization: str) -> None:
    await db.execute("DELETE FROM invitations WHERE organization = $1", organization)


@write
async def remove_all_of(db: Executor, username: str) -> None:
    await db.execute("DELETE FROM invitations WHERE username = $1", username)


def _invitation(row: Record) -> Invitation:
    return Invitation(
        row["organization"],
        row["username"],
        Role(row["role"]),
        row["made_by"],
        row["created_at"],
        row["expires_at"],
    )
