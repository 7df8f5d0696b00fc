"""A slot is kept for a job while the statement runs that enqueues it; a backlog comes in handfuls."""

import asyncio
from collections import Counter

import pytest

from infra.queue.crew import NEVER, Crew, Number, Starts, a_kind, crew, never_end, rows, until
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.queue.jobs import Done, Job, Verdict

ONE = a_kind(limit=1)
MANY = a_kind(limit=2, ahead=4)


class Gate:
    """A handler whose jobs end when they are told to."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(0)
        self.at_once = self.most = 0
        self.served: list[str] = []

    async def __call__(self, job: Job[Number]) -> Verdict:
        self.served.append(job.organization)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.turn.acquire()
        self.at_once -= 1
        return Done()

    def open(self, times: int = 1) -> None:
        for _ in range(times):
            self.turn.release()


async def enqueue(team: Crew, number: int, organization: str = "acme") -> bool:
    """As a write path does: whether its job was leased."""
    with team.queue.units.place(ONE, organization) as place:
        job = await enqueue_for(team, place.lessee, number, organization)
        place.take(job, Number(number))
    return place.lessee is not None


async def enqueue_for(
    team: Crew, lessee: str | None, number: int = 1, organization: str = "acme"
) -> int:
    job: int = await team.db.fetchval(
        "SELECT job_enqueue('test.work', $2, jsonb_build_object('n', $1::int), p_owner => $3, "
        "p_lease => '10 seconds')",
        number,
        organization,
        lessee,
    )
    return job


async def nobody_has_a_slot(team: Crew) -> None:
    """And nobody looks for a job to have one."""
    slots = team.worker._slots

    async def free() -> bool:
        busy = slots._running["test.work"] or slots._wanted or slots._claiming
        return slots._free["test.work"] == 1 and not busy

    await until(free)


async def test_its_job_runs_at_once_under_its_first_lease(database: Database) -> None:
    """With nobody claiming it, and no wake-up."""
    starts, claims = Starts(), failpoints.observe("queue.claim")
    async with crew(database, starts, kind=ONE, poll=NEVER) as team:
        await claims.passed(0)
        before = claims.passes
        assert await enqueue(team, 1)
        await until(lambda: starts.seen)
        [(_, _, job)] = starts.seen
        assert (job.claim, job.attempt, claims.passes) == (1, 1, before)
        await nobody_has_a_slot(team)


async def test_a_slot_is_kept_while_the_statement_runs(database: Database) -> None:
    starts = Starts()
    async with crew(database, starts, kind=ONE) as team:
        with team.queue.units.place(ONE, "acme") as place:
            assert place.lessee == team.queue.owner
            with team.queue.units.place(ONE, "acme") as other:
                assert other.lessee is None, "there is one slot"
            await team.add(7, ONE)
            team.queue.wake(ONE)
            claims = failpoints.observe("queue.tend")
            await claims.passed()
            assert starts.seen == [], "nor does what waits take it"
            place.take(await enqueue_for(team, place.lessee), Number(1))
        await until(lambda: starts.numbers == [1, 7])
        await nobody_has_a_slot(team)


@pytest.mark.parametrize("how", ["fails", "skips", "is cancelled"])
async def test_a_slot_is_let_go(database: Database, how: str) -> None:
    """When the statement fails, or has enqueued nothing; what waited meanwhile has it then."""
    starts = Starts()
    async with crew(database, starts, kind=ONE, poll=NEVER) as team:

        async def write() -> None:
            with team.queue.units.place(ONE, "acme") as place:
                await team.add(7, ONE)
                if how == "fails":
                    raise ValueError
                if how == "is cancelled":
                    raise asyncio.CancelledError
                place.take(None, Number(1))

        writing = asyncio.create_task(write())
        await asyncio.wait([writing])
        await until(lambda: starts.numbers == [7])
        await nobody_has_a_slot(team)


async def test_no_slot_is_kept_before_those_who_wait(database: Database) -> None:
    gate = Gate()
    async with crew(database, gate, kind=ONE) as team:
        for n in range(3):
            await team.add(n, ONE, organization="whale")
        await until(lambda: len(gate.served) == 1)
        assert not await enqueue(team, 9, "shrimp")
        gate.open(4)
        await until(lambda: len(gate.served) == 4)
        await nobody_has_a_slot(team)


async def test_what_is_being_claimed_finds_its_slots(database: Database) -> None:
    """Nothing is claimed only to be put back."""
    starts, gate = failpoints.arm("queue.claim", "hold"), Gate()
    async with crew(database, gate, kind=ONE) as team:
        await team.add(1, ONE)
        await starts.passed()
        leased = await enqueue(team, 2)
        failpoints.disarm("queue.claim")
        await until(lambda: gate.served)
        put_back = "SELECT count(*) FROM jobs WHERE claim > 1"
        gate.open(2)
        await until(lambda: len(gate.served) == 2)
        assert (leased, await database.fetchval(put_back)) == (False, 0)
        await nobody_has_a_slot(team)


async def test_a_claim_that_fails_keeps_no_slot_from_anybody(database: Database) -> None:
    failpoints.arm("queue.claim", "raise@1")
    starts = Starts()
    async with crew(database, starts, kind=ONE) as team:
        await team.add(1, ONE)
        await until(lambda: starts.numbers == [1])
        await nobody_has_a_slot(team)
        assert await enqueue(team, 2)
        await until(lambda: starts.numbers == [1, 2])


async def test_a_worker_that_stops_keeps_nothing(database: Database) -> None:
    """Neither a slot for what is to come, nor a job that comes all the same."""
    async with crew(database, never_end, kind=ONE) as team:
        with team.queue.units.place(ONE, "acme") as place:
            assert place.lessee
            job = await enqueue_for(team, place.lessee)
            stopping = asyncio.create_task(team.worker.stop(5))
            await until(lambda: team.worker._stopping)
            assert not team.worker.reserve("test.work", "acme")
            place.take(job, Number(1))
        await stopping
        [row] = await rows(database)
        assert (row["status"], row["owner"], row["attempts"]) == ("queued", None, 0)
        with team.queue.units.place(ONE, "acme") as later:
            assert later.lessee is None, "nobody works here any more"


# Ahead of their turn


async def test_a_backlog_is_claimed_in_handfuls(database: Database) -> None:
    """Of a hundred jobs each claim takes many; two run at once; none is put back."""
    gate, claims = Gate(), failpoints.observe("queue.claim")
    async with crew(database, gate, kind=MANY, poll=NEVER) as team:
        await team.add_many(100)
        await until(lambda: gate.at_once == 2)
        held = await database.fetchval("SELECT count(*) FROM jobs WHERE status = 'running'")
        assert held == 6, "two that run, four that wait here"
        for done in range(1, 101):
            gate.open()
            await until(lambda done=done: len(gate.served) >= min(done + 2, 100))  # type: ignore[misc]  # bound now
        await until(lambda: gate.at_once == 0)
        assert gate.most == 2
        assert claims.passes <= 2 + 100 // 4
        assert not await database.fetchval("SELECT count(*) FROM jobs WHERE claim > 1")


async def test_a_guest_need_not_wait_behind_what_is_held_here(database: Database) -> None:
    gate = Gate()
    async with crew(database, gate, kind=MANY) as team:
        await team.add_many(50, tenant="whale")
        await until(lambda: gate.at_once == 2)
        await team.add(-1, MANY, organization="shrimp")
        await until(lambda: "shrimp" in gate.served)
        assert Counter(gate.served) == {"whale": 2, "shrimp": 1}
        await team.worker.stop(0.1)
    left = [row for row in await rows(database) if row["organization"] == "whale"]
    assert len(left) == 50
    assert {(row["status"], row["attempts"]) for row in left} == {("queued", 0)}


async def test_organizations_share_what_is_held_here(database: Database) -> None:
    """Turns go round, whoever came first."""
    gate = Gate()
    for organization in ("whale", "shrimp"):
        await database.execute(
            "SELECT job_enqueue('test.work', $1, '{\"n\": 1}') FROM generate_series(1, 30)",
            organization,
        )
    async with crew(database, gate, kind=MANY) as team:
        for done in range(1, 13):
            await until(lambda done=done: len(gate.served) >= done)  # type: ignore[misc]  # bound now
            gate.open()
        shares = Counter(gate.served[:12])
        assert abs(shares["whale"] - shares["shrimp"]) <= 2, gate.served
        await team.worker.stop(0.1)
