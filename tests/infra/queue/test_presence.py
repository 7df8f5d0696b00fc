"""Workers see each other, and only those that are gone lose their jobs before their leases end."""

import asyncio
from functools import partial
from typing import Any

import pytest

from infra.queue.crew import Number, Starts, add_many, crew, nothing_left
from infra.queue.test_outages import kill_backends
from safelight.infra import connecting, failpoints
from safelight.infra.db import Database
from safelight.infra.queue import presence as module
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.infra.queue.presence import Missing, Presence
from safelight.testing.waiting import until

SESSIONS = "query ~ 'job_enrol|UPDATE job_workers' OR query = 'SELECT 1'"
HOUR = 3600.0


async def enrolled(db: Database, number: int) -> bool:
    return bool(await db.fetchval("SELECT count(*) FROM job_workers") == number)


async def test_one_that_lost_its_session_and_lives_keeps_its_jobs(database: Database) -> None:
    over = asyncio.Event()

    async def until_told(_: Job[Number]) -> Verdict:
        await over.wait()
        return Done()

    enrolment, tend = failpoints.observe("queue.enrol"), failpoints.observe("queue.tend")
    starts, other = Starts(until_told), Starts(until_told)
    async with crew(database, starts, lease=HOUR) as team:
        await team.add(1)
        await until(lambda: starts.seen)
        async with crew(database, other, lease=HOUR, poll=0.05, grace=HOUR):
            await until(lambda: kill_backends(database, SESSIONS))
            await enrolment.passed(3)
            await tend.passed(tend.passes + 4)
        async with crew(database, other, lease=HOUR, poll=0.05, grace=0):
            await tend.passed(tend.passes + 4)
            assert other.seen == [], "it was there again, and was taken for gone"
        over.set()
        await until(lambda: nothing_left(database))


async def test_one_that_cannot_be_seen_is_not_looked_for(database: Database) -> None:
    presence = Presence(database, "me", "node_1", 0.05)
    await presence.start()
    await until(partial(enrolled, database, 1))
    failpoints.arm("queue.enrol", "raise")
    await until(lambda: kill_backends(database, SESSIONS))
    await until(partial(enrolled, database, 0))
    failpoints.disarm()
    await until(partial(enrolled, database, 1))
    await presence.stop()
    assert await enrolled(database, 0)


async def test_a_session_that_is_lost_while_it_stops(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both in one moment: it stops all the same."""
    sessions = []

    async def connect(*args: Any, **options: Any) -> Any:
        sessions.append(await connecting.connect(*args, **options))
        return sessions[-1]

    monkeypatch.setattr(module, "connect", connect)
    presence = Presence(database, "me", "node_1", HOUR)
    await presence.start()
    [session] = sessions
    session.terminate()
    await asyncio.sleep(0)  # its listeners are called, and nobody has gone on yet
    async with asyncio.timeout(10):
        await presence.stop()
    assert await enrolled(database, 0)


async def test_whoever_leaves_in_order_is_struck_off(database: Database) -> None:
    async with crew(database):
        assert await enrolled(database, 1)
    assert await enrolled(database, 0)


async def test_those_who_died_long_ago_are_forgotten(database: Database) -> None:
    await database.execute(
        "INSERT INTO job_workers (owner, enrolled_at) VALUES ('long-ago', now() - interval '1 day'), "
        "('held', now() - interval '1 day'), ('lately', now())"
    )
    await add_many(database, 1)
    await database.execute(
        "UPDATE jobs SET status = 'running', owner = 'held', lease_until = now() + interval '1 hour'"
    )
    async with crew(database, grace=HOUR):
        rows = await database.fetch("SELECT owner FROM job_workers ORDER BY owner")
        assert {row["owner"] for row in rows} >= {"held", "lately"}
        assert "long-ago" not in {row["owner"] for row in rows}


def test_whoever_is_back_before_the_grace_ends_was_not_gone() -> None:
    missing = Missing(grace=2.0)
    assert missing.gone(["a", "b"], 10.0) == []
    assert missing.wait(10.5) == 1.5
    assert missing.gone(["b"], 11.0) == []
    assert missing.gone(["a", "b"], 12.0) == ["b"]
    assert missing.wait(12.0) == 2.0
    missing.forget()
    assert missing.gone(["a", "b"], 13.0) == []
    assert missing.wait(13.0) == 2.0
    assert missing.gone([], 14.0) == []
    assert missing.wait(14.0) is None
