"""What organizations do not publish."""

from dataclasses import dataclass

import asyncpg

from safelight.infra.db import Connection, Database
from safelight.submissions.looks import Closeness, Look
from safelight.submissions.policies.policy import Own


@dataclass(frozen=True, slots=True)
class Blocked:
    """An entry of the blocklist: these bytes, whatever looks like this, or both."""

    id: str
    organization: str
    note: str
    checksum: str | None
    look: Look | None
    created_by: str
    created_at: int


async def own(db: Database, organization: str) -> Own:
    row = await db.fetchrow(
        "SELECT safety_block, safety_review, blocked_labels FROM submission_policies "
        "WHERE organization = $1",
        organization,
    )
    if row is None:
        return Own()
    return Own(row["safety_block"], row["safety_review"], tuple(row["blocked_labels"]))


async def put_own(connection: Connection, organization: str, own: Own) -> None:
    await connection.execute(
        """
        INSERT INTO submission_policies (organization, safety_block, safety_review, blocked_labels)
        VALUES ($1, $2, $3, $4)
        ON CONFLICT (organization) DO UPDATE
            SET safety_block = excluded.safety_block, safety_review = excluded.safety_review,
                blocked_labels = excluded.blocked_labels
        """,
        organization,
        own.safety_block,
        own.safety_review,
        list(own.blocked_labels),
    )


async def block(connection: Connection, entry: Blocked) -> None:
    await connection.execute(
        "INSERT INTO blocklist (id, organization, note, checksum, dhash, phash, created_by, "
        "created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        entry.id,
        entry.organization,
        entry.note,
        entry.checksum,
        entry.look and entry.look.dhash,
        entry.look and entry.look.phash,
        entry.created_by,
        entry.created_at,
    )


async def unblock(connection: Connection, organization: str, entry_id: str) -> bool:
    """False: there is no such entry."""
    return bool(
        await connection.fetchval(
            "DELETE FROM blocklist WHERE id = $1 AND organization = $2 RETURNING true",
            entry_id,
            organization,
        )
    )


async def page(
    db: Database, organization: str, before: tuple[int, str] | None, limit: int
) -> list[Blocked]:
    """Newest first; one row more than asked tells that there is more."""
    rows = await db.fetch(
        "SELECT * FROM blocklist WHERE organization = $1 "
        "AND ($2::bigint IS NULL OR (created_at, id) < ($2, $3::text)) "
        "ORDER BY created_at DESC, id DESC LIMIT $4",
        organization,
        *(before or (None, None)),
        limit + 1,
    )
    return [_blocked(row) for row in rows]


async def matching(
    db: Database, organization: str, checksum: str, look: Look | None, closeness: Closeness
) -> tuple[Blocked, bool] | None:
    """An entry that rules this file out, and whether it is for exactly these bytes."""
    row = await db.fetchrow(
        """
        SELECT *, checksum IS NOT DISTINCT FROM $2 AS exact FROM blocklist
        WHERE organization = $1 AND (checksum = $2 OR (
            print_distance(dhash, $3) <= $5 AND print_distance(phash, $4) <= $6))
        ORDER BY exact DESC, id LIMIT 1
        """,
        organization,
        checksum,
        look and look.dhash,
        look and look.phash,
        closeness.dhash,
        closeness.phash,
    )
    return None if row is None else (_blocked(row), row["exact"])


def _blocked(row: asyncpg.Record) -> Blocked:
    look = None if row["dhash"] is None else Look(row["dhash"], row["phash"])
    return Blocked(
        row["id"],
        row["organization"],
        row["note"],
        row["checksum"],
        look,
        row["created_by"],
        row["created_at"],
    )
