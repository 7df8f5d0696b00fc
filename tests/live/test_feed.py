"""Nobody who resumes from a seq ever misses or repeats a row, whoever writes at the same time."""

import asyncio
import random
import time
from contextlib import suppress

import asyncpg

from holding import Statement, waits
from safelight.infra import activity, feed
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.infra.queue.jobs import ACTIVITY
from safelight.live.routes import Hub, Seats
from safelight.testing.waiting import until
from safelight.wiring import MESSAGES

WRITERS, READERS, SECONDS = 64, 8, 6.0
TYPE = "upload_ingested"
SEATS = Seats(per_caller=1000, per_organization=1000)


class At:
    """Says the time it was given."""

    def __init__(self, now: int) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


def units(db: Database, now: int = 0, bus: Bus | None = None) -> Units:
    return Units(db, bus or Bus(db, "test"), At(now))


async def write(db: Database, number: int, end: float, written: list[str]) -> None:
    """Units of random length, some undone by their last statement, each with its history."""
    count, ours = 0, units(db)
    while time.monotonic() < end:
        count += 1
        lines = [Line(f"image:{number}-{count}-{n}", TYPE) for n in range(random.randint(1, 3))]
        try:
            async with ours.open("acme") as unit:
                await unit.connection.execute("SELECT pg_sleep($1)", random.random() / 200)
                unit.tell(*lines)
                if random.random() < 0.2:  # takes the lock, numbers and writes, and is refused
                    unit.tell_others("nobody", Line("", None))  # type: ignore[arg-type]
            written.extend(line.subject for line in lines)
        except asyncpg.NotNullViolationError:
            pass


async def resume(db: Database, over: asyncio.Event) -> list[int]:
    """Reads pages, forgetting now and then where it was and going back a little."""
    seen: list[int] = []
    while True:
        finished = over.is_set()
        if seen and random.random() < 0.1:
            seen = seen[: -random.randint(1, min(len(seen), 50))]
        rows = await feed.lines(
            db, "acme", after=seen[-1] if seen else 0, limit=random.randint(1, 40), types=[TYPE]
        )
        seen += [row.seq for row in rows]
        if finished and not rows:
            return seen


async def test_readers_miss_and_repeat_nothing(database_url: str) -> None:
    db = await Database.open(database_url, pool_size=WRITERS)
    other = await Database.open(database_url, pool_size=READERS)
    end = time.monotonic() + SECONDS
    written: list[str] = []
    writers = asyncio.gather(*(write(db, number, end, written) for number in range(WRITERS)))
    over = asyncio.Event()
    readers = asyncio.gather(*(resume(other, over) for _ in range(READERS)))
    await writers
    over.set()
    rows = await db.fetch("SELECT seq, subject FROM activity ORDER BY seq")
    assert sorted(row["subject"] for row in rows) == sorted(written)
    for seen in await readers:
        assert seen == [row["seq"] for row in rows]
    assert len(written) > 100
    db.terminate()
    other.terminate()


async def test_who_tells_an_organization_waits_for_whoever_does(database: Database) -> None:
    """Or a smaller seq could be seen after a larger one: too rarely for readers to be sure to meet."""

    def tell(organization: str) -> Statement:
        return lambda c: c.execute(
            """SELECT activity_append($1, 1, '[{"subject": "x:1", "type": "x"}]')""", organization
        )

    assert await waits(database, tell("acme"), tell("acme"))
    assert not await waits(database, tell("acme"), tell("else"))


async def test_a_socket_joins_leaves_and_resumes(database: Database) -> None:
    bus = Bus(database, "test")
    hub = Hub(database, bus, MESSAGES, SEATS)

    async def publish() -> None:
        ours = units(database, bus=bus)
        for _ in range(300):
            async with ours.open("acme") as unit:
                unit.tell(Line("x:1", TYPE))

    async def watch() -> list[int]:
        seen: list[int] = []
        while len(seen) < 300:
            position = seen[-1] if seen else 0
            _, newest = await feed.bounds(database, "acme")
            async with hub.room("acme", newest) as room:
                for _ in range(random.randint(1, 30)):
                    messages = await room.after(position)
                    seen += [seq for seq, _ in messages]
                    position = seen[-1]
                    if len(seen) >= 300:
                        break
        return seen

    async with asyncio.timeout(30):
        *everyone, _ = await asyncio.gather(*(watch() for _ in range(6)), publish())
    assert bus.listeners(ACTIVITY) == 0, "when the last one leaves, nobody listens"
    written = await feed.lines(database, "acme", after=0, limit=1000, types=None)
    assert len(written) == 300
    assert all(seen == [row.seq for row in written] for seen in everyone)


async def test_a_cancelled_query_does_not_silence_the_room(database: Database) -> None:
    """The very statement that reads for the room is cancelled while it waits for a lock."""
    bus = Bus(database, "test")
    hub, ours = Hub(database, bus, MESSAGES, SEATS), units(database, bus=bus)

    async def cancelled() -> bool:
        rows = await database.fetch(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock' "
            "AND query LIKE '%FROM activity%'"
        )
        return len(rows) > 0

    async with hub.room("acme", 0) as room:
        async with database.transaction() as connection:
            await connection.execute("LOCK TABLE activity")
            room.wake()
            await until(cancelled)
        async with ours.open("acme") as unit:
            unit.tell(Line("x:1", TYPE))
        async with asyncio.timeout(10):
            assert len(await room.after(0)) == 1


async def test_a_room_ends_with_its_last_visitor(database: Database) -> None:
    """Also when there is news in the moment of leaving."""
    hub = Hub(database, Bus(database, "test"), MESSAGES, SEATS)
    async with hub.room("acme", 0) as room:
        [running] = [task for one, task in hub._rooms.values() if one is room]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it waits by now
        room.wake()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await running
    assert running.cancelled()


async def test_the_feed_can_be_cut_and_history_stays(database: Database) -> None:
    for now in (1_000, 9_000):
        async with units(database, now).open("acme") as unit:
            unit.tell(Line("image:1", TYPE))
    old, new = [row.seq for row in await feed.lines(database, "acme", after=0, limit=9, types=None)]
    await feed.cut(database, 5_000)
    assert await feed.bounds(database, "acme") == (old, new)
    story = await activity.of_subject(database, "acme", "image:1", after=0, limit=10)
    assert [row.seq for row in story] == [old, new]
