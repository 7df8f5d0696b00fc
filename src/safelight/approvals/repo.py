"""The approvals table."""

import asyncpg

from safelight.approvals.lifecycle import Approval, ApprovalStatus, Subject
from safelight.infra.db import Connection, Database, read, write


@write
async def add(connection: Connection, approval: Approval) -> None:
    subject = approval.subject
    await connection.execute(
        "INSERT INTO approvals (id, organization, status, title, description, subject_type, "
        "subject_id, requested_by, created_at, expires_at) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        approval.id,
        approval.organization,
        approval.status,
        approval.title,
        approval.description,
        subject and subject.type,
        subject and subject.id,
        approval.requested_by,
        approval.created_at,
        approval.expires_at,
    )


@read
async def find(db: Database | Connection, organization: str, approval_id: str) -> Approval | None:
    row = await db.fetchrow(
        "SELECT * FROM approvals WHERE id = $1 AND organization = $2", approval_id, organization
    )
    return None if row is None else _approval(row)


@read
async def lock(connection: Connection, approval_id: str) -> Approval | None:
    row = await connection.fetchrow("SELECT * FROM approvals WHERE id = $1 FOR UPDATE", approval_id)
    return None if row is None else _approval(row)


@write
async def write_decision(connection: Connection, approval: Approval) -> None:
    await connection.execute(
        "UPDATE approvals SET status = $2, decided_by = $3, decided_at = $4, reason = $5 "
        "WHERE id = $1",
        approval.id,
        approval.status,
        approval.decided_by,
        approval.decided_at,
        approval.reason,
    )


@read
async def page(
    db: Database,
    organization: str,
    status: ApprovalStatus | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[Approval]:
    """Newest first; one row more than asked tells that there is more."""
    conditions, values = ["organization = $1"], [organization, limit + 1]
    if status is not None:
        values.append(status)
        conditions.append(f"status = ${len(values)}")
    if before is not None:
        values += before
        conditions.append(f"(created_at, id) < (${len(values) - 1}, ${len(values)})")
    rows = await db.fetch(
        f"SELECT * FROM approvals WHERE {' AND '.join(conditions)} "
        "ORDER BY created_at DESC, id DESC LIMIT $2",
        *values,
    )
    return [_approval(row) for row in rows]


@read
async def longest_pending(db: Database, organization: str, limit: int) -> list[Approval]:
    """Oldest first; one row more than asked tells that there is more."""
    rows = await db.fetch(
        f"SELECT * FROM approvals WHERE organization = $1 AND status = '{ApprovalStatus.PENDING}' "
        "ORDER BY created_at, id LIMIT $2",
        organization,
        limit + 1,
    )
    return [_approval(row) for row in rows]


@read
async def pending_count(db: Database, organization: str) -> int:
    """Up to a hundred: more is many."""
    return int(
        await db.fetchval(
            "SELECT count(*) FROM (SELECT FROM approvals WHERE organization = $1 "
            f"AND status = '{ApprovalStatus.PENDING}' LIMIT 100) AS waiting",
            organization,
        )
    )


@read
async def due(db: Database, now: int, limit: int) -> list[Approval]:
    """Pending ones whose time has run out, longest overdue first."""
    rows = await db.fetch(
        f"SELECT * FROM approvals WHERE status = '{ApprovalStatus.PENDING}' AND expires_at <= $1 "
        "ORDER BY expires_at LIMIT $2",
        now,
        limit,
    )
    return [_approval(row) for row in rows]


def _approval(row: asyncpg.Record) -> Approval:
    values = dict(row)
    kind, subject_id = values.pop("subject_type"), values.pop("subject_id")
    subject = Subject(kind, subject_id) if kind else None
    return Approval(**{**values, "status": ApprovalStatus(values["status"]), "subject": subject})
