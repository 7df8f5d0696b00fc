"""However a worker is stopped, its jobs are either done or waiting."""

import asyncio
import random
import threading

from infra.queue.crew import (
    WORK,
    Number,
    Starts,
    a_kind,
    a_queue,
    add_many,
    crew,
    end_leases,
    never_end,
    nothing_left,
    rows,
)
from safelight.infra.db import Database
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.infra.queue.worker import Worker
from safelight.testing.waiting import until


async def hired(database: Database, starts: Starts) -> Worker:
    """Started like any worker, but stopped, or not, by the test."""
    queue = a_queue(database)
    queue.bus._company_until = 0  # alone: nothing of the bus is left over
    worker = Worker(queue, [Handler(WORK, starts)])
    await worker.start()
    return worker


async def test_stopping_waits_for_what_runs(database: Database) -> None:
    over = asyncio.Event()

    async def until_told(_: Job[Number]) -> Verdict:
        await over.wait()
        return Done()

    starts = Starts(until_told)
    await add_many(database, 40)
    worker = await hired(database, starts)
    await until(lambda: len(starts.seen) == WORK.limit)
    stopping = asyncio.create_task(worker.stop(10))
    await until(lambda: not worker.healthy)
    assert not stopping.done()
    over.set()
    await stopping
    assert len(starts.seen) == WORK.limit
    left = await rows(database)
    assert len(left) == 40 - WORK.limit
    assert {(row["status"], row["attempts"]) for row in left} == {("queued", 0)}


async def test_a_job_that_waits_itself_is_left_to_the_next_worker(database: Database) -> None:
    """Beside one that is waited for."""
    over, idle = asyncio.Event(), a_kind("test.idle", waits_itself=True)

    async def until_told(_: Job[Number]) -> Verdict:
        await over.wait()
        return Done()

    waiting, working = Starts(never_end), Starts(until_told)
    async with crew(database, working, others=[Handler(idle, waiting)]) as team:
        await team.add(1)
        await team.add(2, idle)
        await until(lambda: waiting.seen and working.seen)
        stopping = asyncio.create_task(team.worker.stop(600))
        await until(lambda: not team.worker.healthy)
        assert not stopping.done()
        over.set()
        async with asyncio.timeout(20):
            await stopping
        [left] = await rows(database)
    assert (left["kind"], left["status"], left["attempts"]) == ("test.idle", "queued", 0)


async def test_beyond_the_limit_jobs_are_given_back_and_the_attempt_refunded(
    database: Database,
) -> None:
    starts = Starts(never_end)
    await add_many(database, 3)
    worker = await hired(database, starts)
    await until(lambda: len(starts.seen) == 3)
    await worker.stop(0.1)
    for row in await rows(database):
        assert (row["status"], row["attempts"], row["claim"]) == ("queued", 0, 1)
        assert (row["owner"], row["lease_until"]) == (None, None)


async def test_a_handler_that_ignores_cancellation_is_disowned(database: Database) -> None:
    over = asyncio.Event()

    async def stubborn(_: Job[Number]) -> Verdict:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return Done()

    starts = Starts(stubborn)
    await add_many(database, 1)
    worker = await hired(database, starts)
    await until(lambda: starts.seen)
    await worker.stop(0.1)
    over.set()
    [row] = await rows(database)
    assert (row["status"], row["attempts"]) == ("queued", 0)


async def test_a_cancelled_worker_gives_back_at_once(database: Database) -> None:
    starts = Starts(never_end)
    await add_many(database, 5)
    worker = await hired(database, starts)
    await until(lambda: len(starts.seen) == 5)
    worker._attending.cancel()
    await asyncio.wait([worker._attending])
    assert {(row["status"], row["attempts"]) for row in await rows(database)} == {("queued", 0)}


async def test_cancelled_twice_nothing_is_lost_or_marked_finished(database: Database) -> None:
    starts = Starts(never_end)
    await add_many(database, 5)
    worker = await hired(database, starts)
    await until(lambda: len(starts.seen) == 5)
    worker._attending.cancel()
    await asyncio.sleep(0)
    worker._attending.cancel()
    await asyncio.wait([worker._attending])
    left = await rows(database)
    assert len(left) == 5
    assert {row["status"] for row in left} <= {"queued", "running"}
    await end_leases(database)
    survivor = Starts()
    async with crew(database, survivor):
        await until(lambda: nothing_left(database))
    assert len(survivor.seen) == 5


async def test_the_end_of_the_event_loop_loses_nothing(database: Database) -> None:
    starts = Starts(never_end)
    await add_many(database, 20)

    async def forget_to_stop() -> None:
        own = await Database.open(database.url, pool_size=2)
        await hired(own, starts)
        await until(lambda: len(starts.seen) == WORK.limit)
        own.terminate()

    thread = threading.Thread(target=lambda: asyncio.run(forget_to_stop()))
    thread.start()
    await asyncio.to_thread(thread.join)
    left = await rows(database)
    assert len(left) == 20
    assert {row["status"] for row in left} <= {"queued", "running"}
    assert all(row["attempts"] <= 1 for row in left)


async def test_a_handler_cancelled_from_outside_runs_again(database: Database) -> None:
    cancelled = asyncio.Event()

    async def cancel_me_once(_: Job[Number]) -> Verdict:
        if not cancelled.is_set():
            cancelled.set()
            task = asyncio.current_task()
            assert task
            task.cancel()
            await asyncio.Event().wait()
        return Done()

    starts = Starts(cancel_me_once)
    async with crew(database, starts) as team:
        await team.add(1)
        await until(lambda: nothing_left(database))
    assert [job.attempt for _, _, job in starts.seen] == [1, 1]
    assert starts.seen[1][1] - starts.seen[0][1] > 0.5, "a pause, so that it does not spin"


async def test_twelve_times_three_hundred_jobs_under_random_cancels(database: Database) -> None:
    dice = random.Random(7)
    done = 0

    async def jitter(_: Job[Number]) -> Verdict:
        nonlocal done
        await asyncio.sleep(dice.random() / 100)
        done += 1
        return Done()

    for _ in range(12):
        await add_many(database, 300)
        worker = await hired(database, Starts(jitter))
        for _ in range(dice.randint(1, 3)):
            await asyncio.sleep(dice.random() / 10)
            worker._attending.cancel()
        await asyncio.wait([worker._attending])
    statuses = {row["status"] for row in await rows(database)}
    assert statuses <= {"queued", "delayed", "running"}
    assert await database.fetchval("SELECT max(attempts) FROM jobs") <= 1
    left = len(await rows(database))
    assert 0 < left <= 3600
    assert left + done >= 3600, "a job is neither waiting nor was it ever run to its end"
    await end_leases(database)
    async with crew(database):
        await until(lambda: nothing_left(database))
