"""What the events route takes in: events with their delivery jobs, and what it could not read."""

from collections.abc import Sequence

from safelight.infra.db import Connection, Database, read, write
from safelight.objects.jobs import DELIVER, REJECTED
from safelight.objects.notifications.notice import Notice, Rejected


@write
async def add_events(connection: Connection, notices: Sequence[Notice], now: int) -> None:
    """An event row and its own delivery job for each, in the order they came."""
    await connection.executemany(
        """
        WITH event AS (
            INSERT INTO object_events (source, action, key, organization, event_time, sequencer,
                                       etag, size, metadata, received_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id
        )
        SELECT job_enqueue($12, $4,
                           jsonb_build_object('eventId', id, 'name', $11::text))
        FROM event
        """,
        [
            (
                notice.source,
                notice.action,
                notice.key,
                notice.organization,
                notice.event_time,
                notice.sequencer,
                notice.etag,
                notice.size,
                None if notice.metadata is None else dict(notice.metadata),
                now,
                notice.key.partition("/")[2],
                DELIVER.name,
            )
            for notice in notices
        ],
    )


@write
async def add_rejected(connection: Connection, items: Sequence[Rejected], now: int) -> None:
    """Each becomes a job whose only verdict is its dead letter."""
    await connection.executemany(
        """
        WITH notice AS (
            INSERT INTO rejected_notices (code, reason, raw, received_at)
            VALUES ($1, $2, $3, $4) RETURNING id
        )
        SELECT job_enqueue($5, '', jsonb_build_object('noticeId', id)) FROM notice
        """,
        [(item.code, item.reason, item.raw, now, REJECTED.name) for item in items],
    )


@read
async def rejected(db: Database, notice_id: int) -> Rejected | None:
    row = await db.fetchrow(
        "SELECT code, reason, raw FROM rejected_notices WHERE id = $1", notice_id
    )
    return None if row is None else Rejected(row["code"], row["reason"], row["raw"])
