"""A replica answers what it can, and nobody ever reads what is older than what they know."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from prometheus_client import Counter

from classification.images import plain
from conftest import reachable_directory
from faults.pair import Node, pair
from infra.queue.crew import a_queue
from inprocess import application
from safelight.infra import feed
from safelight.infra.activity import Units
from safelight.infra.connecting import connect
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.infra.metrics import Metrics
from safelight.infra.reading import FreshReads
from safelight.testing.injected import Watch
from safelight.testing.waiting import until

OVER = "/api/organizations/default"


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    with reachable_directory() as directory, pair(directory) as both:
        yield both


class Desk:
    """Writes to the primary, and reads as routes do."""

    def __init__(self, nodes: tuple[Node, Node], db: Database) -> None:
        self.first, self.second = nodes
        self.db, self.metrics = db, Metrics()
        self.reading = FreshReads.of(db, self.second.url, 5, self.metrics)
        self.reading._avoid = 0  # so that each read tries it
        self._units = Units(db, a_queue(db).bus, Watch())

    async def tell(self) -> int:
        async with self._units.open("acme") as unit:
            unit.tell(Line("quotas", "told"))
        return (await feed.bounds(self.db, "acme"))[1]

    async def newest(self) -> int:
        return (await feed.bounds(self.reading, "acme"))[1]

    def count(self, outcome: str) -> float:
        counter: Counter = self.metrics.replica_reads
        return float(counter.labels(outcome)._value.get())

    async def replay(self, *, on: bool) -> None:
        connection = await asyncpg.connect(self.second.url)
        await connection.execute(f"SELECT pg_wal_replay_{'resume' if on else 'pause'}()")
        if not on:
            paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
            await until(lambda: connection.fetchval(paused))
        await connection.close()

    async def answered_by_the_replica(self) -> bool:
        before = self.count("replica")
        await self.newest()
        return self.count("replica") > before


@pytest.fixture
async def desk(nodes: tuple[Node, Node]) -> AsyncIterator[Desk]:
    db = await Database.open(nodes[0].url, pool_size=5)
    found = Desk(nodes, db)
    await until(found.answered_by_the_replica)
    yield found
    await found.reading.close()
    db.terminate()


async def test_own_writes_are_seen_and_the_replica_answers(desk: Desk) -> None:
    before = desk.count("replica")
    for _ in range(20):
        told = await desk.tell()
        assert await desk.newest() == told
    assert desk.count("replica") > before + 10


async def test_one_that_is_behind_is_not_believed(desk: Desk) -> None:
    await desk.replay(on=False)
    told = await desk.tell()
    behind = desk.count("behind")
    assert await desk.newest() == told
    assert desk.count("behind") == behind + 1
    await desk.replay(on=True)
    await until(desk.answered_by_the_replica)
    assert await desk.newest() == told


async def test_nobody_sees_time_go_backwards(desk: Desk) -> None:
    """Readers of two processes tell each other what they saw, while the replica stops and goes."""
    other = FreshReads.of(desk.db, desk.second.url, 5, desk.metrics)
    other._avoid = 0
    seen, over = 0, False

    async def read(reading: FreshReads) -> None:
        nonlocal seen
        while not over:
            known = seen
            _, newest = await feed.bounds(reading, "acme")
            assert newest >= known
            rows = await feed.lines(reading, "acme", after=known, limit=999, types=None)
            assert [row.seq for row in rows][: newest - known] == list(range(known + 1, newest + 1))
            seen = max(seen, newest)

    async def is_found_behind() -> bool:
        return desk.count("behind") > behind

    behind, seen = 0.0, await desk.newest()
    readers = asyncio.gather(*(read(each) for each in (desk.reading, other) for _ in range(3)))
    for turn in range(30):
        await desk.tell()
        if turn % 10 == 3:
            behind = desk.count("behind")
            await desk.replay(on=False)
        if turn % 10 == 6:
            await until(is_found_behind)
            await desk.replay(on=True)
    over = True
    await readers
    await other.close()
    assert desk.count("replica")


async def test_one_question_serves_all_who_wait(desk: Desk) -> None:
    questions = 0
    ask = desk.reading._ask_primary

    async def counted(organization: str, waiting: list[None]) -> object:
        nonlocal questions
        questions += 1
        return await ask(organization, waiting)

    desk.reading._positions._send = counted  # type: ignore[assignment]
    await asyncio.gather(*(desk.newest() for _ in range(40)))
    assert questions <= 5


async def test_one_that_leads_elsewhere_is_not_believed(desk: Desk, database_url: str) -> None:
    """Another database, and one that follows nobody."""
    for url in (database_url, desk.first.url):
        elsewhere = FreshReads.of(desk.db, url, 2, desk.metrics)
        before, told = desk.count("replica"), await desk.tell()
        assert (await feed.bounds(elsewhere, "acme"))[1] == told
        assert desk.count("replica") == before
        await elsewhere.close()


async def test_without_one_the_primary_answers(desk: Desk) -> None:
    alone = FreshReads.of(desk.db, None, 2, desk.metrics)
    told = await desk.tell()
    assert (await feed.bounds(alone, "acme"))[1] == told
    async with alone.transaction() as connection:
        await connection.execute("DELETE FROM activity_floor")
    await alone.close()


async def test_whoever_uploads_finds_it_in_lists_and_feeds(desk: Desk, data_dir: Path) -> None:
    """Through the API, whether or not the replica has heard of it."""
    async with application(desk.first.url, data_dir, database_read_url=desk.second.url) as app:
        async with app.client() as client:
            for number, on in enumerate((True, False, True), 1):
                await desk.replay(on=on)
                files = {"file": (f"{number}.jpg", plain("red"))}
                assert (await client.post("/api/upload", files=files)).status_code == 201
                listed = await client.get(f"{OVER}/images")
                told = await client.get(f"{OVER}/activity", params={"types": "upload_ingested"})
                names = [item["name"] for item in listed.json()["items"]]
                assert names[0] == f"{number}.jpg"
                assert len(names) == len(told.json()["items"]) == number
        answered = app.registry.get(Metrics).replica_reads
        assert answered.labels("replica")._value.get()
        assert answered.labels("behind")._value.get()


async def test_one_that_is_away_is_not_missed_and_one_that_leads_is_not_believed(
    desk: Desk,
) -> None:
    """It dies, comes back, and at last takes writes of its own."""
    desk.second.kill()
    told = await desk.tell()
    assert await desk.newest() == told
    assert desk.count("away") == 1
    desk.second.start(following=desk.first)
    await until(desk.answered_by_the_replica)
    await desk.second.promote()
    connection = await connect(desk.second.url)
    await connection.execute("SELECT setval('activity_seq', 5000)")
    for _ in range(3):
        await connection.fetchval(
            """SELECT activity_append('acme', 1, '[{"subject": "x:1", "type": "told"}]')"""
        )
    await connection.close()
    before = desk.count("replica")
    assert await desk.newest() == told
    assert desk.count("replica") == before
