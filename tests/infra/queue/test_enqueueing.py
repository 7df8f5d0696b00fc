"""A job comes with the transaction that needs it, or not at all."""

import asyncio

import pytest

from infra.queue.crew import (
    NEVER,
    WORK,
    Number,
    Starts,
    a_kind,
    a_queue,
    add_many,
    crew,
    nothing_left,
    rows,
)
from safelight.infra.db import Database
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict
from safelight.testing.waiting import until

NEXT = a_kind("test.next", limit=2)


async def test_a_rolled_back_transaction_leaves_no_job(database: Database) -> None:
    queue = a_queue(database)
    with pytest.raises(RuntimeError):
        async with database.transaction() as connection:
            assert await queue.enqueue(connection, WORK, Number(1), organization="acme")
            raise RuntimeError
    assert await nothing_left(database)


async def test_a_committed_one_is_run(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER) as team:
        async with database.transaction() as connection:
            await team.queue.enqueue(connection, WORK, Number(1), organization="acme")
        team.queue.wake(WORK)
        await until(lambda: starts.seen)
    assert starts.seen[0][2].organization == "acme"


async def test_a_second_living_job_with_the_same_key_is_skipped(database: Database) -> None:
    queue = a_queue(database, [WORK, NEXT])
    async with database.transaction() as connection:
        first = await queue.enqueue(connection, WORK, Number(1), organization="a", key="k")
        twin = await queue.enqueue(connection, WORK, Number(2), organization="b", key="k")
        other_kind = await queue.enqueue(connection, NEXT, Number(3), organization="a", key="k")
    assert first
    assert twin is None
    assert other_kind
    assert [row["payload"]["n"] for row in await rows(database)] == [1, 3]


async def test_concurrent_twins_leave_one(database: Database) -> None:
    queue = a_queue(database)
    twins = (
        queue.enqueue(database, WORK, Number(n), organization="a", key="same") for n in range(20)
    )
    ids = await asyncio.gather(*twins)
    assert len([job for job in ids if job]) == 1
    assert len(await rows(database)) == 1
    await queue.bus.stop()


async def test_a_key_is_free_again_when_its_job_has_ended(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, poll=NEVER) as team:
        await team.add(1, key="k")
        await until(lambda: nothing_left(database))
        assert await team.add(2, key="k")
        await until(lambda: nothing_left(database))
    assert starts.numbers == [1, 2]


async def test_a_twin_enqueued_while_the_first_one_retries_sticks_to_nothing(
    database: Database,
) -> None:
    async def fail_twice(job: Job[Number]) -> Verdict:
        assert await team.add(job.payload.n + 100, key="k") is None
        return Done() if job.last_attempt else Retry(Failure("X", "y"))

    starts = Starts(fail_twice)
    async with crew(database, starts) as team:
        await team.add(1, key="k")
        await until(lambda: nothing_left(database))
        assert await team.add(2, key="k")
        await until(lambda: nothing_left(database))
    assert starts.numbers == [1, 1, 1, 2, 2, 2]


async def test_a_job_handed_over_runs_at_once_under_its_first_lease(database: Database) -> None:
    """As the end of one step and the beginning of the next, in one statement."""
    second, following = Starts(), a_kind("test.next", limit=10)

    async def first(job: Job[Number]) -> Verdict:
        lessee = team.queue.lessee
        row = await database.fetchrow(
            """
            SELECT job_finish($1, $2) AS mine,
                   job_enqueue('test.next', 'acme', '{"n": 7}', NULL, NULL, 0, NULL, $3, $4) AS next
            """,
            job.id,
            job.claim,
            lessee,
            team.queue.lease,
        )
        assert row
        team.queue.hand_over(following, row["next"], Number(7), organization="acme", lessee=lessee)
        return job.ended(row["mine"])

    async with crew(database, first, others=[Handler(following, second)], poll=NEVER) as team:
        for number in range(10):
            await team.add(number)
        await until(lambda: nothing_left(database))
    assert second.numbers == [7] * 10
    assert {(job.claim, job.attempt) for _, _, job in second.seen} == {(1, 1)}


async def test_handed_over_jobs_respect_their_kinds_limit(database: Database) -> None:
    running = most = 0

    async def count(_: Job[Number]) -> Verdict:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return Done()

    async with crew(database, others=[Handler(NEXT, count)], poll=NEVER) as team:
        queue = team.queue
        for number in range(9):
            await team.add(number, NEXT, lessee=queue.lessee)
        await until(lambda: nothing_left(database))
    assert most == NEXT.limit


async def test_without_a_worker_there_is_nobody_to_hand_over_to(database: Database) -> None:
    queue = a_queue(database)
    assert queue.lessee is None
    await queue.enqueue(database, WORK, Number(1), organization="a", lessee=queue.lessee)
    [row] = await rows(database)
    assert (row["status"], row["claim"]) == ("queued", 0)
    await queue.bus.stop()


async def test_a_running_job_can_be_cancelled_through_the_fence(database: Database) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    answers: list[bool] = []

    async def wait(job: Job[Number]) -> Verdict:
        started.set()
        await go_on.wait()
        answers.append(await database.fetchval("SELECT job_finish($1, $2)", job.id, job.claim))
        return job.ended(answers[-1])

    async with crew(database, wait) as team:
        await team.add(1, key="k")
        await started.wait()
        assert not await team.queue.cancel(database, WORK, "k")
        assert await team.queue.cancel(database, WORK, "k", running=True)
        go_on.set()
        await until(lambda: answers)
    assert answers == [False]


async def test_organizations_may_have_any_name_and_payloads_any_text(database: Database) -> None:
    names = ["", "a", "Ä", "'; DROP TABLE jobs; --", "x" * 5000, "日本"]
    starts = Starts()
    await add_many(database, 1)
    async with crew(database, starts, poll=NEVER) as team:
        for name in names:
            await team.add(1, organization=name or None, key=name * 2 or None)
        await until(lambda: nothing_left(database))
    assert sorted(job.organization for _, _, job in starts.seen) == sorted([*names, "acme"])


async def test_a_payload_of_another_shape_is_retried_and_dies_with_its_error(
    database: Database,
) -> None:
    starts = Starts()
    async with crew(database, starts) as team:
        await database.execute("""SELECT job_enqueue('test.work', 'acme', '{"other": 1}')""")
        team.queue.wake(WORK)
        [letter] = await until(team.queue.dead_letters.page)
    assert (letter.error["code"], letter.attempts) == ("TypeError", 3)


async def test_a_kind_this_process_does_not_know_is_left_alone(database: Database) -> None:
    await add_many(database, 3, "from.the.future")
    starts = Starts()
    async with crew(database, starts) as team:
        await team.add(1)
        await until(lambda: starts.seen)
        statuses = {status.name: status.queued for status in await team.queue.status()}
    assert statuses == {"from.the.future": 3, "test.work": 0}
