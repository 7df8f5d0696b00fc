"""Tables by stretches of their numbers: nothing is ever without a place, and what is needed stays."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from conftest import with_database
from infra.queue.crew import a_queue
from points import points_of
from safelight.infra import activity, failpoints, feed
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.feed import HISTORY
from safelight.infra.history import Line
from safelight.infra.migrate import load, load_functions, migrate
from safelight.objects import repo as objects
from safelight.objects.upkeep import EVENTS
from safelight.testing.injected import Watch

SIZE, DAY, YEAR = 1_000_000_000, 86_400_000, 365 * 86_400_000
SMALL = replace(HISTORY, least=1)  # so that a few lines are worth a table
TABLES = (
    "SELECT relname FROM pg_class WHERE relname ~ '^(activity|object_events)_s' AND relkind = 'r'"
)


class Chronicle:
    """Tells, and lets months pass."""

    def __init__(self, db: Database) -> None:
        self.db, self.watch = db, Watch()
        self._units = Units(db, a_queue(db).bus, self.watch)

    async def tell(self, *lines: Line) -> None:
        async with self._units.open("acme") as unit:
            unit.tell(*lines)

    async def upkeep(self, *, days: int = 0) -> None:
        """As the hourly one does it."""
        now = self.watch.move(days=days)
        await feed.cut(self.db, now - 30 * DAY)
        await SMALL.tend(self.db, now)

    async def story(self, subject: str) -> list[str]:
        rows = await activity.of_subject(self.db, "acme", subject, after=0, limit=99)
        return [row.type for row in rows]

    async def seqs(self, after: int = 0) -> list[int]:
        rows = await feed.lines(self.db, "acme", after=after, limit=99, types=None)
        return [row.seq for row in rows]

    async def tables(self, parent: str = "activity") -> list[int]:
        names = [row[0].split("_s") for row in await self.db.fetch(TABLES)]
        kept = await self.db.fetch("SELECT number FROM stretches WHERE parent = $1", parent)
        numbers = sorted(int(number) for name, number in names if name == parent)
        assert numbers == sorted(row["number"] for row in kept), "each is known, and has its table"
        return numbers

    async def enter(self, name: str) -> None:
        await self.db.execute(
            "INSERT INTO uploads (organization, name, event_time, source, idempotency_key) "
            "VALUES ('acme', $1, 1, 'safelight', 'k')",
            name,
        )


@pytest.fixture
async def chronicle(database: Database) -> Chronicle:
    found = Chronicle(database)
    now = found.watch.now_ms()
    await database.execute("UPDATE stretches SET begun_at = $1 WHERE number = 0", now)
    return found


async def test_a_month_begins_a_new_one_and_readers_notice_nothing(chronicle: Chronicle) -> None:
    seen: list[int] = []
    for month in range(4):
        await chronicle.tell(Line("quotas", f"month-{month}"))
        await chronicle.upkeep(days=1)
        await chronicle.tell(Line("quotas", f"later-{month}"))
        seen += await chronicle.seqs(after=seen[-1] if seen else 0)
        await chronicle.upkeep(days=30)
    assert seen == await chronicle.seqs() == sorted(seen)
    assert [seq // SIZE for seq in seen] == [0, 0, 1, 1, 2, 2, 3, 3]
    months = [word for n in range(4) for word in (f"month-{n}", f"later-{n}")]
    assert await chronicle.story("quotas") == months
    assert await chronicle.tables() == list(range(7))
    _, newest = await feed.bounds(chronicle.db, "acme")
    assert newest == seen[-1]


async def test_little_is_worth_no_table_and_much_waits_for_no_month(chronicle: Chronicle) -> None:
    for n in range(3):
        await chronicle.tell(Line("quotas", f"x{n}"))
    now = chronicle.watch.move(days=40)
    await replace(HISTORY, least=4).tend(chronicle.db, now)
    assert await chronicle.db.fetchval("SELECT last_value FROM activity_seq") == 3
    await chronicle.db.execute("UPDATE stretches SET begun_at = $1 WHERE number = 0", now)
    await replace(HISTORY, least=4, most=3).tend(chronicle.db, now)
    assert await chronicle.db.fetchval("SELECT last_value FROM activity_seq") == SIZE


async def test_the_story_of_what_is_there_stays_and_the_others_go(chronicle: Chronicle) -> None:
    """Also where hardly anything stays; and whoever was far behind in the feed is told so."""
    for name in ("kept.jpg", "buried.jpg", *(f"gone-{n}.jpg" for n in range(9))):
        await chronicle.tell(
            Line(f"upload:{name}", "a"), Line("image:?", "b", also=f"upload:{name}")
        )
    await chronicle.enter("kept.jpg")
    await chronicle.db.execute(
        "INSERT INTO tombstones VALUES ('acme', 'buried.jpg', 1, NULL, 'safelight', 1)"
    )
    old = await chronicle.seqs()
    await chronicle.upkeep(days=31)
    await chronicle.upkeep(days=31)
    await chronicle.tell(Line("upload:kept.jpg", "c"))
    assert await chronicle.story("upload:kept.jpg") == ["a", "b", "c"]
    assert await chronicle.story("upload:buried.jpg") == ["a", "b"]
    assert await chronicle.story("upload:gone-1.jpg") == []
    assert (await feed.bounds(chronicle.db, "acme"))[0] == old[-1], "the feed begins after them"
    await chronicle.db.execute("DELETE FROM uploads; DELETE FROM tombstones")
    await chronicle.upkeep(days=31)
    assert 0 not in await chronicle.tables()
    assert await chronicle.story("upload:kept.jpg") == ["c"], "what was told since is not old yet"
    left = "SELECT relname FROM pg_class WHERE relname ~ '^activity_(s0|.*_copy)'"
    assert not await chronicle.db.fetch(left)


async def test_what_is_mostly_needed_is_left_as_it_is(chronicle: Chronicle) -> None:
    await chronicle.enter("kept.jpg")
    for name in ("kept.jpg", "kept.jpg", "gone.jpg"):
        await chronicle.tell(Line(f"upload:{name}", "a"))
    table = "SELECT 'activity_s0'::regclass::oid"
    before = await chronicle.db.fetchval(table)
    await chronicle.upkeep(days=31)
    await chronicle.upkeep(days=31)
    assert await chronicle.db.fetchval(table) == before
    assert await chronicle.story("upload:gone.jpg") == ["a"]


@pytest.mark.parametrize(
    ("status", "entered", "stays"),
    [("STORED", False, False), ("STORED", True, True), ("FAILED", False, True)],
)
async def test_an_image_is_remembered_with_its_name(
    chronicle: Chronicle, status: str, entered: bool, stays: bool
) -> None:
    """One that never got there is on its own; its story is why."""
    await chronicle.db.execute(
        "INSERT INTO organizations VALUES ('acme', 1) ON CONFLICT DO NOTHING; "
        "INSERT INTO images (id, organization, name, idempotency_key, status, temp_path, checksum, "
        "mime_type, width, height, size_bytes, created_at, updated_at) VALUES ('i', 'acme', 'a.jpg', "
        f"gen_random_uuid(), '{status}', '', '', '', 1, 1, 1, 1, 1)"
    )
    if entered:
        await chronicle.enter("a.jpg")
    await chronicle.tell(Line("image:i", "a"))
    await chronicle.upkeep(days=31)
    await chronicle.upkeep(days=31)
    assert await chronicle.story("image:i") == (["a"] if stays else [])


async def test_a_clock_that_is_years_off_leaves_no_line_without_a_place(
    chronicle: Chronicle,
) -> None:
    for leap in (20 * YEAR, -40 * YEAR, 60 * YEAR, -40 * YEAR):
        chronicle.watch.ms += leap
        for _ in range(5):
            await chronicle.tell(Line("quotas", "told"))
            await chronicle.upkeep()
    assert len(await chronicle.story("quotas")) == 20
    assert len(await chronicle.seqs()) <= 20
    ahead = max(await chronicle.tables())
    last = await chronicle.db.fetchval("SELECT last_value FROM activity_seq")
    assert last // SIZE + 2 <= ahead < 10


async def test_a_start_makes_what_comes_next(database: Database, database_url: str) -> None:
    """Whatever became of upkeep: the numbers have gone further than anybody made tables for."""
    await database.execute("SELECT setval('activity_seq', 2 * $1::bigint)", SIZE)
    await migrate(database_url)
    found = Chronicle(database)
    assert max(await found.tables()) == 5
    await found.tell(Line("quotas", "told"))
    assert await found.story("quotas") == ["told"]


@pytest.mark.parametrize("point", points_of("stretches."))
async def test_a_death_anywhere_loses_nothing(chronicle: Chronicle, point: str) -> None:
    await chronicle.enter("kept.jpg")
    names = ("kept.jpg", "gone-1.jpg", "gone-2.jpg")
    await chronicle.tell(*(Line(f"upload:{name}", "a") for name in names))
    await chronicle.upkeep(days=31)
    chronicle.watch.move(days=31)
    armed = failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        await chronicle.upkeep()
    assert armed.passes
    await chronicle.tell(Line("upload:kept.jpg", "b"))
    assert await chronicle.story("upload:kept.jpg") == ["a", "b"]
    await chronicle.upkeep()
    assert await chronicle.story("upload:kept.jpg") == ["a", "b"]
    assert await chronicle.story("upload:gone-1.jpg") == []


async def test_a_number_that_moved_on_alone_is_made_good(chronicle: Chronicle) -> None:
    """A sequence does not go back with the transaction that moved it."""
    await chronicle.tell(Line("quotas", "a"))
    chronicle.watch.move(days=31)
    async with chronicle.db.connection() as connection:
        await connection.execute("BEGIN")
        now = chronicle.watch.now_ms()
        await connection.execute(
            "SELECT stretches_turn('activity', 'activity_seq', 1, 9, $1, $1)", now
        )
        await connection.execute("ROLLBACK")
    await chronicle.tell(Line("quotas", "b"))
    begun = "SELECT begun_at FROM stretches WHERE parent = 'activity' AND number = 1"
    assert await chronicle.db.fetchval(begun) is None
    await chronicle.upkeep()
    assert await chronicle.db.fetchval(begun) == chronicle.watch.now_ms()
    assert [seq // SIZE for seq in await chronicle.seqs()] == [0, 1]


async def test_whoever_is_in_the_way_is_not_waited_for_long(chronicle: Chronicle) -> None:
    """Everybody would wait behind the exchange; so it gives up, and comes again."""
    await chronicle.tell(Line("upload:gone.jpg", "a"))
    await chronicle.upkeep(days=31)
    async with chronicle.db.transaction() as reading:
        await reading.execute("SELECT FROM activity LIMIT 1")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await chronicle.upkeep(days=31)
    assert await chronicle.story("upload:gone.jpg") == ["a"]
    await chronicle.upkeep()
    assert await chronicle.story("upload:gone.jpg") == []


async def test_an_event_that_nobody_heard_stays_and_can_be_heard(chronicle: Chronicle) -> None:
    """Also while the stretch is exchanged: the mark is on the copy, or on what was copied."""
    db, few = chronicle.db, replace(EVENTS, least=1)
    await db.execute(
        "INSERT INTO object_events (source, action, key, event_time, received_at, delivered_at) "
        "SELECT 'x', 'created', 'k', n, 1, CASE WHEN n < 9 THEN 1 END "
        "FROM generate_series(1, 9) AS n"
    )
    await few.tend(db, chronicle.watch.move(days=31))
    now = chronicle.watch.move(days=31)
    async with db.transaction() as hearing:
        await hearing.execute("UPDATE object_events SET delivered_at = NULL WHERE id = 8")
        exchange = asyncio.create_task(few.tend(db, now))
        with pytest.raises(asyncpg.LockNotAvailableError):
            await exchange
    await few.tend(db, now)
    rows = await db.fetch("SELECT id FROM object_events ORDER BY id")
    assert [row["id"] for row in rows] == [8, 9]
    assert await db.execute("UPDATE object_events SET delivered_at = 2 WHERE id = 9") == "UPDATE 1"
    assert await db.fetchval(
        "INSERT INTO object_events (source, action, key, event_time, received_at) "
        "VALUES ('x', 'created', 'k', 1, 1) RETURNING id"
    ) == SIZE + 1  # fmt: skip


@pytest.mark.parametrize("used", [0, 7, SIZE - 1, SIZE, 5 * SIZE + 7])
async def test_an_older_database_becomes_the_first_stretch(postgres_url: str, used: int) -> None:
    """With its rows and its numbers, however many were used."""
    url = await _empty(postgres_url, f"stretched_{used}")
    migrations = load()
    before = next(m.number for m in migrations if m.name == "partitions") - 1
    await migrate(url, migrations[:before], "")
    connection = await asyncpg.connect(url)
    if used:
        await connection.execute("SELECT setval('activity_seq', $1)", used)
        await connection.execute("SELECT setval('object_events_id_seq', $1)", used)
        await connection.execute(
            "INSERT INTO activity VALUES ($1, 'acme', 'x:1', NULL, 'told', 1, '{}')", used
        )
        await connection.execute(
            "INSERT INTO object_events (id, source, action, key, event_time, received_at) "
            "OVERRIDING SYSTEM VALUE VALUES ($1, 'x', 'created', 'k', 1, 1)", used
        )  # fmt: skip
    table = "SELECT relfilenode FROM pg_class WHERE oid = $1::regclass"
    file = await connection.fetchval(table, "activity")
    await migrate(url)
    assert await connection.fetchval(table, f"activity_s{used // SIZE}") == file, "not rewritten"
    told = """SELECT activity_append('acme', 1, '[{"subject": "x:1", "type": "told"}]')"""
    assert await connection.fetchval(told) == used + 1
    assert await connection.fetchval(
        "INSERT INTO object_events (source, action, key, event_time, received_at) "
        "VALUES ('x', 'created', 'k', 1, 1) RETURNING id"
    ) == used + 1  # fmt: skip
    rows = await connection.fetch("SELECT seq FROM activity ORDER BY seq")
    assert [row["seq"] for row in rows] == [used, used + 1][not used :]
    await connection.close()


async def test_a_server_that_runs_meanwhile_goes_on(postgres_url: str) -> None:
    """Its connections have plans for the tables as they were."""
    url = await _empty(postgres_url, "stretched_meanwhile")
    migrations, functions = load(), "\n".join(load_functions().values())
    before = next(m.number for m in migrations if m.name == "partitions") - 1
    await migrate(url, migrations[:before], functions)
    db = await Database.open(url, pool_size=2)
    chronicle = Chronicle(db)
    for number in range(1, 20):
        if number == 10:
            await migrate(url)
        await chronicle.tell(Line("x:1", "told"))
        assert len(await chronicle.story("x:1")) == number
        assert await chronicle.seqs() == list(range(1, number + 1))
        announced = await db.fetchval(
            "SELECT event_id FROM object_announce('created', 'acme/a', 'acme', 'a', 1, 'e', 1, '{}', "
            "1, NULL, NULL)"
        )
        assert announced == 2 * number - 1
        event = await db.fetchval(
            "INSERT INTO object_events (source, action, key, event_time, received_at) "
            "VALUES ('x', 'created', 'k', 1, 1) RETURNING id"
        )
        assert event == 2 * number
        found = await objects.event(db, event)
        assert found
        assert found.id == event
    db.terminate()


async def _empty(url: str, name: str) -> str:
    connection = await asyncpg.connect(with_database(url, "postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    await connection.close()
    return with_database(url, name)
