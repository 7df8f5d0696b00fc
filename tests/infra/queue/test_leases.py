"""Who holds a job, and what somebody who no longer does can still do: nothing."""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import structlog

from infra.queue.crew import (
    NEVER,
    WORK,
    Number,
    Starts,
    a_queue,
    add_many,
    crew,
    end_leases,
    nothing_left,
    rows,
)
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.jobs import Done, Failure, Job, PutBack, Verdict
from safelight.infra.queue.ledger import Ledger
from safelight.infra.queue.slots import Opening
from safelight.testing.waiting import until

LEASE = 1.0


async def test_a_slow_live_job_runs_once(database: Database) -> None:
    """Each worker renews three times in a lease: nine are longer than one, whoever has the jobs."""
    renewal = failpoints.observe("queue.renew")

    async def slow(job: Job[Number]) -> Verdict:
        if job.raw["n"] == 1:
            await renewal.passed(9)
        else:
            await asyncio.to_thread(renewal.wait, 9)
        return Done()

    first, second = Starts(slow), Starts(slow)
    async with crew(database, first, lease=LEASE), crew(database, second, lease=LEASE):
        await add_many(database, 2)
        await until(lambda: nothing_left(database))
    assert sorted(first.numbers + second.numbers) == [1, 2]


async def test_without_renewal_it_would_run_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(_: Ledger) -> None:
        return None

    twice = asyncio.Event()

    async def slow(_: Job[Number]) -> Verdict:
        await twice.wait()
        return Done()

    monkeypatch.setattr(Ledger, "renew", forget)
    first, second = Starts(slow), Starts(slow)
    async with crew(database, first, lease=LEASE), crew(database, second, lease=LEASE):
        await add_many(database, 1)
        await until(lambda: len(first.seen + second.seen) > 1)
        twice.set()


async def test_a_blocked_loop_loses_its_job_and_says_so(database: Database) -> None:
    def blocked_worker(ready: threading.Event, over: threading.Event) -> None:
        async def block(_: Job[Number]) -> Verdict:
            ready.set()
            time.sleep(LEASE * 3)  # noqa: ASYNC251 - the mistake under test
            return Done()

        async def live() -> None:
            own = await Database.open(database.url, pool_size=3)
            async with crew(own, block, lease=LEASE) as blocked:
                await blocked.add_many(1)
                await until(over.is_set)
            own.terminate()

        asyncio.run(live())

    ready, over = threading.Event(), threading.Event()
    with structlog.testing.capture_logs() as logs:
        thread = threading.Thread(target=blocked_worker, args=(ready, over), daemon=True)
        thread.start()
        await asyncio.to_thread(ready.wait)
        taken_over = Starts()
        try:
            async with crew(database, taken_over, lease=LEASE):
                await until(lambda: taken_over.seen)
                for event in ("job.lost", "loop.unblocked"):
                    await until(partial(logged, logs, event))
                assert await nothing_left(database)
        finally:
            over.set()
            await asyncio.to_thread(thread.join)
    assert [job.deaths for _, _, job in taken_over.seen] == [1]
    shouts = [line["at"] for line in logs if line["event"] == "loop.blocked"]
    assert any("time.sleep(LEASE * 3)" in where for where in shouts)


def logged(logs: Sequence[Mapping[str, Any]], event: str) -> bool:
    return any(line["event"] == event for line in logs)


@pytest.fixture
async def zombie(database: Database) -> Job[Number]:
    """Holds a claim on a job that somebody else has claimed since."""
    queue = a_queue(database)
    await add_many(database, 1)
    [first] = await claim(database, queue.owner)
    await end_leases(database)
    await queue_repo.tend(database, ["test.work"], "here", [])
    [second] = await claim(database, "somebody-else")
    assert (first.id, first.claim, second.claim) == (second.id, 1, 2)
    return first


async def claim(db: Database, owner: str) -> list[Job[Number]]:
    kind = a_queue(db).kinds["test.work"]
    found = await queue_repo.claim(
        db, [Opening("test.work", 10, "")], "here", owner, timedelta(seconds=10)
    )
    return [Job.load(kind, row) for row in found]


async def test_a_zombie_changes_nothing(database: Database, zombie: Job[Number]) -> None:
    before = await rows(database)
    again = PutBack(0.0, Failure("X", "y"))
    assert await queue_repo.finish(database, [zombie]) == set()
    assert await queue_repo.put_back(database, [(zombie, again)]) == set()
    assert await queue_repo.put_back(database, [(zombie, PutBack(0.0, None))]) == set()
    assert not await database.fetchval("SELECT job_finish($1, $2)", zombie.id, zombie.claim)
    await queue_repo.renew(database, [zombie], timedelta(hours=1))
    async with database.transaction() as connection:
        assert not await queue_repo.bury(connection, zombie, Failure("X", "y"))
    assert await rows(database) == before


async def test_an_expired_lease_is_lost_even_before_somebody_takes_over(database: Database) -> None:
    await add_many(database, 1)
    [held] = await claim(database, "sleeper")
    await end_leases(database)
    await queue_repo.tend(database, ["test.work"], "here", [])
    assert not await database.fetchval("SELECT job_finish($1, $2)", held.id, held.claim)


async def test_an_expired_lease_nobody_noticed_can_still_be_renewed(database: Database) -> None:
    await add_many(database, 1)
    [held] = await claim(database, "sleeper")
    await end_leases(database)
    await queue_repo.renew(database, [held], timedelta(hours=1))
    await queue_repo.tend(database, ["test.work"], "here", [])
    [row] = await rows(database)
    assert (row["status"], row["claim"]) == ("running", 1)


async def test_renewing_does_not_wait_for_a_job_that_is_ending(database: Database) -> None:
    await add_many(database, 2)
    ending, other = await claim(database, "worker")
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT job_finish($1, $2)", ending.id, ending.claim)
        renewal = queue_repo.renew(database, [ending, other], timedelta(hours=1))
        await asyncio.wait_for(renewal, 5)
    [row] = await rows(database)
    assert row["lease_until"] - row["created_at"] > timedelta(minutes=30)


async def test_a_job_put_off_and_claimed_again_at_once_keeps_its_new_lease(
    database: Database,
) -> None:
    """It keeps its id, so the end of the first time must not be taken for the end of the second."""
    ledger = Ledger(database, a_queue(database, lease=3600), {})
    await add_many(database, 1)
    lease = timedelta(seconds=1)
    for _ in range(2):
        [row] = await queue_repo.claim(database, [("test.work", 1, "")], "here", "me", lease)
        job = Job.load(WORK, row)
        ledger.hold(job)
        if job.claim == 1:
            first = job
            async with database.transaction() as connection:
                assert await queue_repo.put_off(connection, job, 0)
    ledger.add(first, Done(already=True))
    await ledger.renew()
    late = "SELECT lease_until > now() + interval '1 minute' FROM jobs"
    assert await database.fetchval(late)


async def test_a_lost_lease_under_a_slow_handler_ends_well(database: Database) -> None:
    """The job comes back to the process that still runs it: it is not run beside itself, and its new
    lease does not end with the old handler."""
    running = most = 0

    async def slow(job: Job[Number]) -> Verdict:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            if job.claim == 1:
                await asyncio.Event().wait()
        finally:
            running -= 1
        return Done()

    starts = Starts(slow)
    async with crew(database, starts) as team:
        await team.add(1)
        await until(lambda: starts.seen)
        await end_leases(database)
        await queue_repo.tend(database, ["test.work"], "here", [])  # somebody else looks
        team.queue.wake(WORK)
        await until(lambda: nothing_left(database))
    assert most == 1
    assert [job.deaths for _, _, job in starts.seen] == [0, 1]


async def test_a_worker_never_takes_its_own_leases_for_expired(database: Database) -> None:
    """A suspended machine, or a clock that jumped: it has them in hand, whatever the time."""
    over = asyncio.Event()

    async def until_told(_: Job[Number]) -> Verdict:
        await over.wait()
        return Done()

    starts = Starts(until_told)
    tend = failpoints.observe("queue.tend")
    async with crew(database, starts, poll=NEVER) as team:
        await team.add(1)
        await until(lambda: starts.seen)
        for _ in range(3):
            await end_leases(database)
            looks = tend.passes
            team.queue.wake()
            await tend.passed(looks + 1)
        over.set()
        await until(lambda: nothing_left(database))
    assert [job.claim for _, _, job in starts.seen] == [1]


async def test_after_trouble_others_have_time_to_renew(database: Database) -> None:
    """The database was away for longer than a lease, for everybody."""
    await add_many(database, 1)
    await claim(database, "somebody-else")
    await end_leases(database)
    starts, tend = Starts(), failpoints.arm("queue.tend", "raise@1")
    async with crew(database, starts, grace=3600, poll=0.05):
        await tend.passed(6)
        assert starts.seen == []
        await database.execute("DELETE FROM jobs")
