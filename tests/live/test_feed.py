"""Nobody who resumes from a seq ever misses or repeats a row, whoever writes at the same time."""

import asyncio
import random
import time

from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.live.hub import Hub
from safelight.wiring import MESSAGES

WRITERS, READERS, SECONDS = 64, 8, 6.0
TYPE = "upload_ingested"


async def write(db: Database, number: int, end: float, written: list[int]) -> None:
    """Transactions of random length, some rolled back, each ending with its history."""
    count = 0
    while time.monotonic() < end:
        count += 1
        try:
            async with db.transaction() as connection:
                await connection.execute("SELECT pg_sleep($1)", random.random() / 200)
                entries = [Line(f"image:{number}-{count}", TYPE)] * random.randint(1, 3)
                last = await activity.append(connection, "acme", count, *entries)
                if random.random() < 0.2:
                    raise ZeroDivisionError
                written.extend(range(last - len(entries) + 1, last + 1))
        except ZeroDivisionError:
            pass


async def resume(db: Database, end: float) -> list[int]:
    """Reads pages, forgetting now and then where it was and going back a little."""
    seen: list[int] = []
    while True:
        finished = time.monotonic() > end
        if seen and random.random() < 0.1:
            seen = seen[: -random.randint(1, min(len(seen), 50))]
        rows = await activity.feed(
            db, "acme", after=seen[-1] if seen else 0, limit=random.randint(1, 40), types=[TYPE]
        )
        seen += [row.seq for row in rows]
        if finished and not rows:
            return seen


async def test_readers_miss_and_repeat_nothing(database_url: str) -> None:
    db = await Database.open(database_url, pool_size=WRITERS)
    other = await Database.open(database_url, pool_size=READERS)
    end = time.monotonic() + SECONDS
    written: list[int] = []
    writers = asyncio.gather(*(write(db, number, end, written) for number in range(WRITERS)))
    readers = asyncio.gather(*(resume(other, end + 1) for _ in range(READERS)))
    await writers
    for seen in await readers:
        assert seen == sorted(written)
    assert len(written) > 500
    db.terminate()
    other.terminate()


async def test_a_socket_joins_leaves_and_resumes(database: Database) -> None:
    bus = Bus(database, "test")
    hub = Hub(database, bus, MESSAGES)
    written: list[int] = []

    async def publish() -> None:
        for number in range(300):
            async with database.transaction() as connection:
                seq = await activity.append(connection, "acme", number, Line("x:1", TYPE))
            written.append(seq)
            bus.announce("activity", "acme")

    async def watch() -> list[int]:
        seen: list[int] = []
        while len(seen) < 300:
            position = seen[-1] if seen else 0
            _, newest = await activity.bounds(database, "acme")
            async with hub.room("acme", newest) as room:
                for _ in range(random.randint(1, 30)):
                    messages = await room.after(position)
                    seen += [seq for seq, _ in messages]
                    position = seen[-1]
                    if len(seen) >= 300:
                        break
        return seen

    with hub.listening():
        async with asyncio.timeout(30):
            *everyone, _ = await asyncio.gather(*(watch() for _ in range(6)), publish())
    assert all(seen == written for seen in everyone)


async def test_the_feed_can_be_cut_and_history_stays(database: Database) -> None:
    async with database.transaction() as connection:
        old = await activity.append(connection, "acme", 1_000, Line("image:1", TYPE))
    async with database.transaction() as connection:
        new = await activity.append(connection, "acme", 9_000, Line("image:1", TYPE))
    await activity.cut_feed(database, 5_000)
    assert await activity.bounds(database, "acme") == (old, new)
    story = await activity.of_subject(database, "acme", "image:1", after=0, limit=10)
    assert [row.seq for row in story] == [old, new]
