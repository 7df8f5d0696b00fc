"""Whose turn it is: node, priority, organization, age; and how much of a kind runs at once."""

import asyncio
import time
from datetime import timedelta
from typing import Any

from infra.queue.crew import (
    Number,
    Starts,
    a_kind,
    add_many,
    crew,
    never_end,
    nothing_left,
    rows,
)
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Job, Opening, Slots, Verdict
from safelight.testing.waiting import until


async def enqueue(
    db: Database, organization: str, n: int, priority: int = 0, node: str = ""
) -> None:
    await db.execute(
        "SELECT job_enqueue('test.work', $1, jsonb_build_object('n', $2::int), NULL, $3, $4)",
        organization,
        n,
        node,
        priority,
    )


async def claim(db: Database, slots: int, after: str = "", node: str = "here") -> list[Any]:
    return await queue_repo.claim(
        db, [Opening("test.work", slots, after)], node, "me", timedelta(seconds=60)
    )


async def test_every_organization_gets_its_share_of_a_claim(database: Database) -> None:
    for organization in "abc":
        for n in range(10):
            await enqueue(database, organization, n)
    taken = sorted((row["organization"], row["payload"]["n"]) for row in await claim(database, 6))
    assert taken == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]


async def test_a_share_nobody_uses_goes_to_the_others(database: Database) -> None:
    await enqueue(database, "a", 0)
    for n in range(10):
        await enqueue(database, "b", n)
    taken = sorted(row["organization"] for row in await claim(database, 8))
    assert taken == ["a"] + ["b"] * 7


async def test_one_slot_goes_round(database: Database) -> None:
    for organization in "abc":
        for n in range(3):
            await enqueue(database, organization, n)
    slots = Slots({"test.work": 1})
    served = []
    for _ in range(9):
        slots.want(["test.work"])
        openings = slots.openings()
        rows = await queue_repo.claim(database, openings, "here", "me", timedelta(seconds=60))
        slots.claimed(openings, {"test.work": [row["organization"] for row in rows]})
        served += [row["organization"] for row in rows]
    assert "".join(served) == "abcabcabc"


async def test_priority_comes_before_fairness_and_age(database: Database) -> None:
    await enqueue(database, "a", 1, priority=-5)
    await enqueue(database, "b", 2)
    await enqueue(database, "c", 3, priority=9)
    await enqueue(database, "a", 4, priority=9)
    order = [row["payload"]["n"] for slot in range(4) for row in await claim(database, 1)]
    assert order == [4, 3, 2, 1]


async def test_a_claim_goes_on_to_lower_priorities(database: Database) -> None:
    for n, priority in enumerate((5, 0, -5)):
        await enqueue(database, "a", n, priority)
    assert len(await claim(database, 10)) == 3


async def test_a_bound_job_runs_on_its_node_only(database: Database) -> None:
    await enqueue(database, "a", 1, node="there")
    await enqueue(database, "a", 2)
    assert [row["payload"]["n"] for row in await claim(database, 5)] == [2]
    assert [row["payload"]["n"] for row in await claim(database, 5, node="there")] == [1]


async def test_a_single_job_beside_ten_thousand_starts_soon(database: Database) -> None:
    async def brief(_: Job[Number]) -> Verdict:
        await asyncio.sleep(0.005)
        return Done()

    kind = a_kind(limit=4)
    starts = Starts(brief)
    await add_many(database, 10_000, organization="whale")
    async with crew(database, starts, kind=kind) as team:
        await until(lambda: len(starts.seen) > 40)
        added = time.monotonic()
        await team.add(-1, kind, organization="shrimp")
        await until(lambda: -1 in starts.numbers)
        started = next(at for number, at, _ in starts.seen if number == -1)
        assert started - added < 1
        assert len(starts.seen) < 5000


async def test_a_slow_kind_does_not_hold_up_another(database: Database) -> None:
    slow = a_kind("test.slow", limit=2)
    slow_starts, starts = Starts(never_end), Starts()
    async with crew(database, starts, others=[Handler(slow, slow_starts)]) as team:
        await team.add_many(50, "test.slow")
        await until(lambda: len(slow_starts.seen) == 2)
        await team.add(1)
        await until(lambda: starts.seen)
        assert len(slow_starts.seen) == 2
        running = [row for row in await rows(database) if row["status"] == "running"]
        assert len(running) <= 3
        await team.worker.stop(0.1)


async def test_two_workers_share_one_backlog(database: Database) -> None:
    first, second = Starts(), Starts()
    async with crew(database, first), crew(database, second) as team:
        await team.add_many(1000)
        await until(lambda: nothing_left(database))
    assert sorted(first.numbers + second.numbers) == list(range(1, 1001))
