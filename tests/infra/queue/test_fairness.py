"""Whose turn it is: node, priority, organization, age; and how much of a kind runs at once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

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
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Done, Job, JobKind, Verdict
from safelight.infra.queue.slots import Opening, Slots
from safelight.testing.waiting import until
from safelight.wiring import KINDS


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


SHARED = [kind for kind in KINDS if kind.limit > 1]


@pytest.mark.parametrize("kind", SHARED, ids=lambda kind: kind.name)
async def test_a_single_job_beside_many_waits_for_one_turn(
    database: Database, kind: JobKind[Any]
) -> None:
    """Of every kind there is: scans, classifications, a provider's tasks."""
    turn, served = asyncio.Semaphore(0), list[str]()

    async def until_told(job: Job[Any]) -> Verdict:
        served.append(job.organization)
        await turn.acquire()
        return Done()

    many = 3 * kind.limit
    await add_many(database, many, kind.name, "whale")
    async with crew(database, until_told, kind=kind) as team:
        await until(lambda: len(served) == kind.limit)
        await add_many(database, 1, kind.name, "shrimp")
        team.bus.announce("jobs", kind.name)
        turn.release()
        await until(lambda: "shrimp" in served)
        assert served.index("shrimp") <= kind.limit + 1
        await team.worker.stop(0.1)


async def test_ten_thousand_jobs_are_one_turn_to_others(database: Database) -> None:
    await add_many(database, 10_000, organization="whale")
    await add_many(database, 1, organization="shrimp")
    assert [row["organization"] for row in await claim(database, 1)] == ["shrimp"]
    assert [row["organization"] for row in await claim(database, 1)] == ["whale"]


async def test_long_jobs_of_one_organization_leave_a_slot_for_another(database: Database) -> None:
    """Also when the statement that looks for it fails the first time."""
    armed = failpoints.arm("queue.claim_guest", "raise@1")
    starts = Starts(never_end)
    async with crew(database, starts, kind=a_kind(limit=4)) as team:
        await team.add_many(50, tenant="whale")
        await until(lambda: len(starts.seen) == 4)
        await team.add(-1, organization="shrimp")
        await team.add(-2, organization="shrimp")
        await until(lambda: -1 in starts.numbers)
        assert len(starts.seen) == 5
        assert armed.passes >= 2
        await team.worker.stop(0.1)


async def test_what_is_handed_over_has_no_turn_before_others(database: Database) -> None:
    turn = asyncio.Semaphore(0)

    async def until_told(_: Job[Number]) -> Verdict:
        await turn.acquire()
        return Done()

    starts, kind = Starts(until_told), a_kind(limit=1)
    async with crew(database, starts, kind=kind) as team:
        for n in range(30):
            await team.add(n, kind, organization="whale", lessee=team.queue.lessee)
        await team.add(-1, kind, organization="shrimp")
        for n in range(1, 4):
            await until(lambda n=n: len(starts.seen) >= n)  # type: ignore[misc]  # bound now
            turn.release()
        await until(lambda: len(starts.seen) >= 3)
        assert -1 in starts.numbers[:3]
        await team.worker.stop(0.1)


async def test_a_guest_is_of_none_of_the_busy(database: Database) -> None:
    for n, organization in enumerate(["a", "b", "c", "d"]):
        await enqueue(database, organization, n)
    await enqueue(database, "elsewhere", 8, node="there")
    await enqueue(database, "0-not-urgent", 9, priority=-1)

    async def guest(*busy: str) -> list[str]:
        lease = timedelta(seconds=60)
        taken = await queue_repo.claim_guest(database, "test.work", busy, "here", "me", lease)
        return [row["organization"] for row in taken]

    assert await guest("a", "b") == ["c"]
    assert await guest("a", "b") == ["d"]
    assert await guest("a", "b") == []
    [taken] = [row for row in await rows(database) if row["organization"] == "d"]
    assert (taken["status"], taken["owner"], taken["claim"], taken["attempts"]) == (
        "running", "me", 1, 1,
    )  # fmt: skip


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
