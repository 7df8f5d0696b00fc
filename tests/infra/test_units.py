"""Units of work: all or nothing, history last, news only of what committed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import asyncpg
import pytest

from safelight.infra import failpoints, feed, kv
from safelight.infra.activity import Unit, Units
from safelight.infra.bus import Bus
from safelight.infra.db import UNSTORABLE_TEXT, Database, literal
from safelight.infra.failpoints import FailpointError
from safelight.infra.history import Line
from safelight.infra.injected import SystemClock
from safelight.infra.queue import repo
from safelight.infra.queue.jobs import ACTIVITY, TIMETABLE, TOPIC, Job, JobId, JobKind, LeaseLost


@dataclass(frozen=True, slots=True)
class NumberPayload:
    n: int


WORK = JobKind("test.unit", payload=NumberPayload)
HERE, LEASE = "here", timedelta(seconds=60)


class Office:
    """Units, and an ear on the bus."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.bus = Bus(db, "test")
        self.units = Units(db, self.bus, SystemClock())
        self.heard: list[tuple[str, str]] = []
        for topic in (ACTIVITY, TOPIC):
            self.bus.subscribe(topic, partial(self._hear, topic))

    def _hear(self, topic: str, detail: str) -> None:
        self.heard.append((topic, detail))

    async def claimed(self, number: int = 1, key: str | None = None) -> Job[NumberPayload]:
        await repo.enqueue(self.db, WORK, NumberPayload(number), "acme", key=key)
        [row] = await repo.claim(self.db, [(WORK.name, 1, "")], HERE, "me", LEASE)
        return Job(JobId(row["id"]), WORK, "acme", row["payload"], row["claim"], row["attempts"])

    async def jobs(self) -> list[tuple[str, int]]:
        rows = await self.db.fetch("SELECT status, attempts FROM jobs ORDER BY id")
        return [(row["status"], row["attempts"]) for row in rows]

    async def types(self) -> list[str]:
        lines = await feed.lines(self.db, "acme", after=0, limit=100, types=None)
        return [line.type for line in lines]

    async def kept(self) -> object:
        return await kv.get(self.db, "kept", now=0)


@pytest.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    made = Office(database)
    yield made
    await made.bus.stop()


async def write(office: Office, job: Job[NumberPayload] | None = None) -> None:
    async with office.units.open("acme") as unit:
        unit.tell(Line("image:1", "first"), Line("image:1", "second"))
        await kv.put(unit.connection, "kept", 1, now=0)
        await unit.enqueue(WORK, NumberPayload(2), key="next")
        if job is not None:
            unit.ends(job)
        assert office.heard == [], "nobody hears of what has not committed"


async def test_everything_commits_together_and_is_told_afterwards(office: Office) -> None:
    job = await office.claimed()
    await write(office, job)
    assert await office.types() == ["first", "second"]
    assert await office.kept() == 1
    assert await office.jobs() == [("queued", 0)]
    assert sorted(office.heard) == [(ACTIVITY, "acme"), (TOPIC, WORK.name)]


async def test_a_job_that_is_somebody_elses_takes_everything_back(office: Office) -> None:
    job = await office.claimed()
    await office.db.execute("UPDATE jobs SET claim = claim + 1")
    with pytest.raises(LeaseLost):
        await write(office, job)
    assert (await office.types(), await office.kept(), office.heard) == ([], None, [])
    assert await office.jobs() == [("running", 1)]


@pytest.mark.parametrize("point", ["kv.put", "queue.enqueue", "unit.close"])
async def test_a_failure_anywhere_leaves_nothing(office: Office, point: str) -> None:
    job = await office.claimed()
    failpoints.arm(point, "raise")
    with pytest.raises(FailpointError):
        await write(office, job)
    failpoints.disarm()
    assert (await office.types(), await office.kept(), office.heard) == ([], None, [])
    assert await office.jobs() == [("running", 1)]
    await write(office, job)
    assert await office.jobs() == [("queued", 0)]


async def test_history_is_the_last_statement(office: Office) -> None:
    """A unit that has told its history but not closed keeps no other writer waiting."""
    told = asyncio.Event()

    async def slow() -> None:
        async with office.units.open("acme") as unit:
            unit.tell(Line("image:1", "slow"))
            told.set()
            await quick
            await kv.put(unit.connection, "kept", 1, now=0)

    async def hasty() -> None:
        await told.wait()
        async with office.units.open("acme") as unit:
            unit.tell(Line("image:2", "quick"))

    quick = asyncio.create_task(hasty())
    async with asyncio.timeout(10):
        await slow()
    assert await office.types() == ["quick", "slow"]


async def test_a_job_put_off_keeps_its_row_and_its_key(office: Office) -> None:
    job = await office.claimed(key="mine")
    async with office.units.open("acme") as unit:
        await unit.put_off(job, 60)
    assert await office.jobs() == [("delayed", 0)]
    assert office.heard == [(TOPIC, TIMETABLE)]
    async with office.units.open("acme") as unit:
        assert not await unit.enqueue(WORK, NumberPayload(1), key="mine")
        await unit.run_now(WORK, NumberPayload(1), key="mine")
    assert await office.jobs() == [("queued", 0)]
    with pytest.raises(LeaseLost):
        async with office.units.open("acme") as unit:
            await unit.put_off(job, 0)


async def test_who_lost_a_job_neither_holds_it_nor_puts_it_off(office: Office) -> None:
    """Taken over and running again elsewhere; or back in the queue, where nobody has it."""
    job = await office.claimed()
    for theirs in ("claim = claim + 1", "status = 'queued', owner = NULL, lease_until = NULL"):
        await office.db.execute(f"UPDATE jobs SET {theirs}")
        verbs: list[Callable[[Unit], Awaitable[None]]] = [
            lambda unit: unit.hold(job),
            lambda unit: unit.put_off(job, 0),
        ]
        for verb in verbs:
            with pytest.raises(LeaseLost):
                async with office.units.open("acme") as unit:
                    await verb(unit)
        await office.db.execute("UPDATE jobs SET claim = $1", job.claim)


async def test_a_held_job_cannot_be_taken_over_meanwhile(office: Office) -> None:
    job = await office.claimed()
    async with office.units.open("acme") as unit:
        await unit.hold(job)
        moved = await office.db.fetchval(
            "SELECT count(*) FROM (SELECT FROM jobs FOR UPDATE SKIP LOCKED) AS free"
        )
        assert moved == 0
    await office.db.execute("DELETE FROM jobs")
    with pytest.raises(LeaseLost):
        async with office.units.open("acme") as unit:
            await unit.hold(job)


async def test_waiting_jobs_are_cancelled_running_ones_are_not(office: Office) -> None:
    await office.claimed(key="runs")
    await repo.enqueue(office.db, WORK, NumberPayload(2), "acme", key="waits")
    async with office.units.open("acme") as unit:
        assert await unit.cancel(WORK, "waits")
        assert not await unit.cancel(WORK, "runs")
    assert await office.jobs() == [("running", 1)]


async def test_safelights_own_work_has_no_history(office: Office) -> None:
    async with office.units.open("") as unit:
        unit.tell(Line("job:1", "unheard"))
    assert await office.db.fetchval("SELECT count(*) FROM activity") == 0
    assert office.heard == []


async def test_others_are_told_in_the_same_unit(office: Office) -> None:
    job = await office.claimed()
    async with office.units.open("") as unit:
        unit.tell_others("zebra", Line("upload:z", "damaged"))
        unit.tell_others("acme", Line("upload:a", "damaged"))
        unit.tell_others("zebra", Line("upload:y", "damaged"))
        unit.ends(job)
    rows = await office.db.fetch("SELECT organization, subject FROM activity ORDER BY seq")
    told = [tuple(row) for row in rows]
    assert told == [("acme", "upload:a"), ("zebra", "upload:z"), ("zebra", "upload:y")]
    assert sorted(office.heard) == [(ACTIVITY, "acme"), (ACTIVITY, "zebra")]
    assert await office.jobs() == []


async def test_two_that_tell_the_same_others_do_not_wait_in_a_ring(office: Office) -> None:
    async def tell(*organizations: str) -> None:
        async with office.units.open("") as unit:
            for organization in organizations:
                unit.tell_others(organization, Line("upload:a", "damaged"))

    names = [f"o{number}" for number in range(20)]
    turns = [names, names[::-1]] * 20
    await asyncio.gather(*(tell(*turn) for turn in turns))
    assert await office.db.fetchval("SELECT count(*) FROM activity") == 20 * 40


@pytest.mark.parametrize(
    "text",
    [
        "it's",
        "\\",
        "\\'; DROP TABLE jobs; --",
        "'; COMMIT; --",
        "ü 照片 \U0001f4f7",
        "\n\t$1 $$",
        "\\u0041",
    ],
)
async def test_whatever_is_told_is_told_as_it_is(office: Office, text: str) -> None:
    async with office.units.open("acme") as unit:
        unit.tell(Line(f"upload:{text}", "said", {"text": text, text: 1}, also=text))
    [row] = await office.db.fetch("SELECT subject, also, data FROM activity")
    assert tuple(row) == (f"upload:{text}", text, {"text": text, text: 1})
    assert await office.db.fetchval(f"SELECT {literal(text)}") == text
    async with office.db.transaction() as connection:  # however the server reads backslashes
        await connection.execute("SET LOCAL standard_conforming_strings = off")
        await connection.execute("SET LOCAL backslash_quote = off")
        assert await connection.fetchval(f"SELECT {literal(text)}") == text


async def test_what_a_statement_cannot_hold_is_refused(office: Office) -> None:
    with pytest.raises(ValueError, match="NUL"):
        literal("a\0b")
    with pytest.raises(UNSTORABLE_TEXT):
        async with office.units.open("acme") as unit:
            unit.tell(Line("upload:a", "said", {"text": "a\0b"}))
    assert await office.types() == []


async def test_a_statement_that_failed_is_not_committed_over(office: Office) -> None:
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        async with office.units.open("") as unit:
            await kv.put(unit.connection, "kept", 1, now=0)
            with suppress(asyncpg.DivisionByZeroError):
                await unit.connection.execute("SELECT 1 / 0")
    assert await office.kept() is None


async def test_units_each_of_whose_commits_is_news(office: Office) -> None:
    units = Units(office.db, office.bus, SystemClock(), news=(TOPIC, "changed"))
    async with units.open("acme"):
        assert office.heard == [], "not before it has committed"
    assert office.heard == [(TOPIC, "changed")]
    with suppress(ZeroDivisionError):
        async with units.open("acme"):
            raise ZeroDivisionError
    failpoints.arm("unit.close", "raise@1")
    with pytest.raises(FailpointError):
        async with units.open("acme") as unit:
            unit.tell(Line("image:1", "first"))
    assert office.heard == [(TOPIC, "changed")], "nor where nothing has"
