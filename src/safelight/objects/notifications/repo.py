"""Events with their delivery jobs, as the events route takes them in or as they are told again, and
what it could not read."""

from collections.abc import Sequence

from safelight.infra.db import Connection, Database, read, write
from safelight.objects.events import Action
from safelight.objects.jobs import DELIVER, REJECTED
from safelight.objects.keys import owner_of
from safelight.objects.notifications.notice import Notice, Rejected
from safelight.objects.store import ObjectInfo


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
async def tell_again(
    connection: Connection,
    action: Action,
    key: str,
    event_time: int,
    info: ObjectInfo | None,
    now: int,
) -> None:
    """An event of our own of what is so already, and its delivery; under the key's lock."""
    await connection.execute(
        "SELECT object_announce($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, NULL)",
        action,
        key,
        *owner_of(key),
        event_time,
        info and info.etag,
        info and info.size,
        dict(info.metadata) if info else None,
        now,
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
