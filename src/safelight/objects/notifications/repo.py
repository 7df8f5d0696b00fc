"""Events with their delivery jobs, as the events route takes them in or as they are told again, and
what it could not read."""

from collections.abc import Sequence

from safelight.infra.db import Connection, Database, read, write
from safelight.infra.storable import readable
from safelight.objects.events import Action
from safelight.objects.jobs import DELIVER, REJECTED
from safelight.objects.keys import owner_of
from safelight.objects.notifications.notice import Confirmation, Notice, Rejected
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
    """Each has its dead letter, which shows it."""
    await connection.executemany(
        """
        WITH notice AS (
            INSERT INTO rejected_notices (code, reason, raw, received_at)
            VALUES ($1, $2, $3, $4) RETURNING id
        )
        SELECT job_letter($5, '', jsonb_build_object('noticeId', id, 'reason', $2::text,
                                                     'body', $6::text),
                          jsonb_build_object('code', $1::text, 'message', $2::text))
        FROM notice
        """,
        [
            (item.code, item.reason, item.raw, now, REJECTED.name, readable(item.raw))
            for item in items
        ],
    )


@read
async def rejected(db: Database, notice_id: int) -> Rejected | None:
    row = await db.fetchrow(
        "SELECT code, reason, raw FROM rejected_notices WHERE id = $1", notice_id
    )
    return None if row is None else Rejected(row["code"], row["reason"], row["raw"])


# What a courier asks. Its addresses are good for three days, and nobody has many topics.
_GOOD_FOR_MS = 3 * 86_400_000
_MOST_TOPICS = 20


@write
async def keep_confirmations(
    connection: Connection, items: Sequence[Confirmation], now: int
) -> None:
    """The newest of each topic; what is old or too much goes."""
    await connection.executemany(
        "INSERT INTO event_subscriptions (topic, kind, url, received_at) VALUES ($1, $2, $3, $4) "
        "ON CONFLICT (topic) DO UPDATE SET kind = excluded.kind, url = excluded.url, "
        "received_at = excluded.received_at",
        [(item.topic, item.kind, item.url, now) for item in items],
    )
    await connection.execute(
        "DELETE FROM event_subscriptions WHERE received_at < $1 OR topic NOT IN ("
        "SELECT topic FROM event_subscriptions ORDER BY received_at DESC, topic LIMIT $2)",
        now - _GOOD_FOR_MS,
        _MOST_TOPICS,
    )


@read
async def confirmations(db: Database, now: int) -> list[Confirmation]:
    """Those that a person can still follow, the newest first."""
    rows = await db.fetch(
        "SELECT kind, topic, url FROM event_subscriptions WHERE received_at >= $1 "
        "ORDER BY received_at DESC, topic",
        now - _GOOD_FOR_MS,
    )
    return [Confirmation(**row) for row in rows]
