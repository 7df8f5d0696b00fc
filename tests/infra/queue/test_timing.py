"""When jobs start: retries, redrives, alarms, and wake-ups. Bounds are loose; the bench has figures."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from infra.queue.crew import (
    NEVER,
    WORK,
    Number,
    Starts,
    a_queue,
    add_many,
    crew,
    nothing_left,
)
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.jobs import (
    Dead,
    Done,
    Failure,
    Job,
    JobId,
    Retry,
    Tended,
    Verdict,
)
from safelight.infra.queue.slots import Opening
from safelight.testing.waiting import until


async def test_a_job_starts_at_once_when_enqueued_here(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER) as team:
        await team.add(1)
        await until(lambda: starts.seen, 3)


async def test_a_job_starts_at_once_when_enqueued_elsewhere(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER):
        elsewhere = a_queue(database)
        await elsewhere.enqueue(database, WORK, Number(1), organization="acme")
        await until(lambda: starts.seen, 3)
        await elsewhere.bus.stop()


async def test_without_wake_ups_neither_would(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER) as team:
        await team.add(1)
        await until(lambda: nothing_left(database))
        monkeypatch.setattr(Bus, "announce", lambda *_: None)
        await team.add(2)
        await asyncio.sleep(0.5)
        assert starts.numbers == [1]
        monkeypatch.undo()


async def test_a_lost_wake_up_costs_no_more_than_the_poll(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts) as team:
        await team.add(1)
        await until(lambda: starts.seen)
        await add_many(database, 1)
        await until(lambda: len(starts.seen) == 2, 1 + 2)


async def test_a_retry_after_a_quarter_second_comes_then(database: Database) -> None:
    async def twice(job: Job[Number]) -> Verdict:
        return Retry(Failure("X", "y"), after=0.25) if job.attempt == 1 else Done()

    starts = Starts(twice)
    async with crew(database, starts, poll=NEVER) as team:
        await team.add(1)
        await until(lambda: nothing_left(database))
    waited = starts.seen[1][1] - starts.seen[0][1]
    assert 0.25 <= waited < 0.5 + 1


async def test_a_redrive_runs_at_once(database: Database) -> None:
    async def hopeless_at_first(job: Job[Number]) -> Verdict:
        return Done() if job.claim > 1 else Dead(Failure("X", "y"))

    starts = Starts(hopeless_at_first)
    async with crew(database, starts, poll=NEVER) as team:
        job = await team.add(1)
        assert job
        await until(team.queue.dead_letters.page)
        redriven = time.monotonic()
        await team.queue.dead_letters.redrive(job)
        await until(lambda: len(starts.seen) == 2)
        assert starts.seen[1][1] - redriven < 0.05 + 1
        assert starts.seen[1][2].attempt == 1


async def test_alarms_go_off_on_time(database: Database) -> None:
    starts = Starts()
    due: dict[int, float] = {}
    async with crew(database, starts, poll=NEVER) as team:
        for number in range(30):
            delay = 0.2 + number / 50
            due[number] = time.monotonic() + delay
            await team.add(number, run_in=delay)
        await until(lambda: len(starts.seen) == 30)
    lateness = [at - due[number] for number, at, _ in starts.seen]
    assert min(lateness) > -0.005
    assert sorted(lateness)[-2] < 0.15 + 0.5


async def test_an_alarm_set_elsewhere_is_noticed(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER):
        elsewhere = a_queue(database)
        await elsewhere.enqueue(database, WORK, Number(1), organization="acme", run_in=0.3)
        await until(lambda: starts.seen, 5)
        await elsewhere.bus.stop()


async def test_an_alarm_set_while_the_worker_looks_is_not_overlooked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = queue_repo.tend
    starts = Starts()

    async def look_and_miss(*values: Any, **options: Any) -> Tended:
        answer = await look(*values, **options)
        if not alarms:
            alarms.append(await team.add(1, run_in=0.2))
        return answer

    alarms: list[JobId | None] = []
    async with crew(database, starts, poll=NEVER) as team:
        monkeypatch.setattr(queue_repo, "tend", look_and_miss)
        team.queue.wake()
        await until(lambda: starts.seen, 5)


async def test_reschedule_moves_an_alarm_and_cancel_takes_it_away(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER) as team:
        await team.add(1, key="moved", run_in=3600)
        await team.add(2, key="gone", run_in=3600)
        assert await team.queue.reschedule(database, WORK, "moved", run_in=0.1)
        assert await team.queue.cancel(database, WORK, "gone")
        await until(lambda: nothing_left(database))
        assert not await team.queue.reschedule(database, WORK, "gone", run_in=0.1)
        assert not await team.queue.cancel(database, WORK, "gone")
    assert starts.numbers == [1]


async def test_ten_thousand_alarms_cost_a_claim_nothing(database: Database) -> None:
    async def claims_and_tends() -> float:
        best = 1.0
        for _ in range(60):
            begin = time.perf_counter()
            await queue_repo.claim(
                database, [Opening("test.work", 4, "")], "here", "me", timedelta(seconds=5)
            )
            await queue_repo.tend(database, ["test.work"], "here", [])
            best = min(best, time.perf_counter() - begin)
        return best

    without = await claims_and_tends()
    await database.execute(
        """
        SELECT job_enqueue('test.work', 'tenant-' || i % 500, '{"n": 1}', NULL, NULL, 0,
                           now() + interval '1 day')
        FROM generate_series(1, 10000) AS i
        """
    )
    assert await claims_and_tends() < without * 2 + 0.001
