"""What organizations do not publish, and pictures that look alike."""

import asyncpg

from safelight.infra.db import Connection, Database, read, write
from safelight.infra.states import listed
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.submissions.policies.policy import (
    BlocklistEntry,
    Closeness,
    Looks,
    PolicyOverrides,
)

_SHOWN = listed((SubmissionState.PUBLISHED, SubmissionState.AWAITING_APPROVAL))
_LOOKS = ("dhash", "phash", "dark_dhash", "dark_phash")


def _alike(looks: Looks, first: int) -> str:
    """Whether one of the looks looks like one of a row's. Its parameters, from `first` on, are what
    `_given` answers. Each pair is written out: every picture of an organization is asked, and a
    query of its own for each would take several times as long."""
    pairs = [
        f"(print_distance({dhash}, ${look}) <= ${first} "
        f"AND print_distance({phash}, ${look + 1}) <= ${first + 1})"
        for look in range(first + 2, first + 2 + 2 * len(looks.all), 2)
        for dhash, phash in (_LOOKS[:2], _LOOKS[2:])
    ]
    return " OR ".join(pairs) or "false"


def _given(looks: Looks, closeness: Closeness) -> list[int]:
    """None at all where there is nothing to compare."""
    prints = [value for look in looks.all for value in (look.dhash, look.phash)]
    return [closeness.dhash, closeness.phash, *prints] if prints else []


# Policies


@read
async def policy_overrides(db: Database, organization: str) -> PolicyOverrides:
    row = await db.fetchrow(
        "SELECT safety_block, safety_review, blocked_labels FROM submission_policies "
        "WHERE organization = $1",
        organization,
    )
    if row is None:
        return PolicyOverrides()
    return PolicyOverrides(row["safety_block"], row["safety_review"], tuple(row["blocked_labels"]))


@write
async def put_policy(connection: Connection, organization: str, own: PolicyOverrides) -> None:
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


# The blocklist


@read
async def lock_pictures(connection: Connection, organization: str) -> None:
    """Until the transaction's end nobody else publishes or rules out one of its pictures."""
    await connection.execute("SELECT pictures_lock($1)", organization)


@write
async def block(connection: Connection, entry: BlocklistEntry) -> None:
    await connection.execute(
        f"INSERT INTO blocklist (id, organization, note, checksum, created_by, created_at, "
        f"{', '.join(_LOOKS)}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        entry.id,
        entry.organization,
        entry.note,
        entry.checksum,
        entry.created_by,
        entry.created_at,
        *entry.looks.to_row().values(),
    )


@write
async def unblock(connection: Connection, organization: str, entry_id: str) -> bool:
    """False: there is no such entry."""
    return bool(
        await connection.fetchval(
            "DELETE FROM blocklist WHERE id = $1 AND organization = $2 RETURNING true",
            entry_id,
            organization,
        )
    )


@read
async def entry(db: Database, entry_id: str) -> BlocklistEntry | None:
    row = await db.fetchrow("SELECT * FROM blocklist WHERE id = $1", entry_id)
    return None if row is None else _entry(row)


@read
async def blocklist(
    db: Database, organization: str, before: tuple[int, str] | None, limit: int
) -> list[BlocklistEntry]:
    """Newest first; one row more than asked tells that there is more."""
    rows = await db.fetch(
        "SELECT * FROM blocklist WHERE organization = $1 "
        "AND ($2::bigint IS NULL OR (created_at, id) < ($2, $3::text)) "
        "ORDER BY created_at DESC, id DESC LIMIT $4",
        organization,
        *(before or (None, None)),
        limit + 1,
    )
    return [_entry(row) for row in rows]


@read
async def blocked(
    db: Database | Connection,
    organization: str,
    checksum: str,
    looks: Looks,
    closeness: Closeness,
) -> tuple[str, bool] | None:
    """An entry that rules this file out, and whether it is for exactly these bytes."""
    row = await db.fetchrow(
        f"""
        SELECT id, checksum IS NOT DISTINCT FROM $2 AS exact FROM blocklist
        WHERE organization = $1 AND (checksum = $2 OR {_alike(looks, 3)})
        ORDER BY exact DESC, id LIMIT 1
        """,
        organization,
        checksum,
        *_given(looks, closeness),
    )
    return None if row is None else (row["id"], row["exact"])


# Alike ones


@read
async def published_twin(
    db: Database | Connection, submission: Submission, looks: Looks, closeness: Closeness
) -> tuple[str, bool] | None:
    """Another one of the organization that everybody can see, and whether it is the same file."""
    row = await db.fetchrow(
        f"""
        SELECT id, checksum = $3 AS exact FROM submissions
        WHERE organization = $1 AND state = '{SubmissionState.PUBLISHED}' AND id <> $2
          AND (checksum = $3 OR {_alike(looks, 4)})
        ORDER BY exact DESC, id LIMIT 1
        """,
        submission.organization,
        submission.id,
        submission.checksum,
        *_given(looks, closeness),
    )
    return None if row is None else (row["id"], row["exact"])


@read
async def shown_of(db: Database, entry: BlocklistEntry, closeness: Closeness) -> list[str]:
    """What an entry rules out and somebody can see already: everybody, or whoever has to decide."""
    rows = await db.fetch(
        f"""
        SELECT id FROM submissions
        WHERE organization = $1 AND state IN {_SHOWN}
          AND (checksum = $2 OR {_alike(entry.looks, 3)})
        ORDER BY id
        """,
        entry.organization,
        entry.checksum,
        *_given(entry.looks, closeness),
    )
    return [row["id"] for row in rows]


def _entry(row: asyncpg.Record) -> BlocklistEntry:
    return BlocklistEntry(
        row["id"],
        row["organization"],
        row["note"],
        row["checksum"],
        Looks.kept(*(row[name] for name in _LOOKS)),
        row["created_by"],
        row["created_at"],
    )
