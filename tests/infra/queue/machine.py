"""The queue as a state machine: anything may happen in any order, to several workers at once.

It speaks to the statements directly and moves rows instead of waiting. Nobody ever forgets a claim,
so everything that was ever claimed may be finished, retried or renewed at any time, long after it
was taken over: those are the zombies.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, ClassVar

import asyncpg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from infra.queue.crew import Number, a_kind
from safelight.infra.codecs import prepare
from safelight.infra.db import Connection
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.jobs import (
    DEATHS,
    SUSPECT,
    Backoff,
    Failure,
    Job,
    PutBack,
)
from safelight.infra.queue.slots import Opening

ATTEMPTS = 3
KIND = a_kind(retry=Backoff(attempts=ATTEMPTS))
LEASE = timedelta(hours=1)
FAILURE = Failure("X", "y")
KEYS = ["k1", "k2"]
WAITS = [None, None, 3600.0]
FEW = 3  # jobs at a time, so that much happens to each
LONGEST_DRAIN = 60

# Few rules with many variants: the more rules, the more often the essential ones are left out.
AFTER_A_CLAIM = [
    "finish", "finish inside", "retry", "retry later", "away", "give back", "bury", "renew",
]  # fmt: skip
IN_TIME = ["leases end", "takeover", "takeover", "time passes", "tend"]
BY_PEOPLE = ["cancel", "cancel running", "reschedule", "redrive", "discard"]


class QueueMachine(RuleBasedStateMachine):
    loop: ClassVar[asyncio.AbstractEventLoop]
    connection: ClassVar[Connection]

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Job[Number]] = []
        self.holder: dict[int, int] = {}  # the claim that may end a job now
        self.alive: dict[int, str | None] = {}  # with its key
        self.dead: set[int] = set()
        self.ended: Counter[int] = Counter()
        self.starts: Counter[int] = Counter()  # since it was enqueued or redriven, not refunded
        self.deaths: Counter[int] = Counter()  # likewise, of workers that had it
        self.waits: Counter[int] = Counter()

    def do(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    @initialize()
    def begin(self) -> None:
        self.do(self.connection.execute("DELETE FROM jobs"))

    @precondition(lambda self: len(self.alive) < FEW)
    @rule(
        key=st.sampled_from([None, *KEYS]), tenant=st.sampled_from(["", "a", "b"]),
        wait=st.sampled_from(WAITS), priority=st.integers(0, 1),
    )  # fmt: skip
    def enqueue(self, key: str | None, tenant: str, wait: float | None, priority: int) -> None:
        added = queue_repo.enqueue(
            self.connection, KIND, Number(1), tenant, key=key, priority=priority, run_in=wait
        )
        job = self.do(added)
        taken = key is not None and key in self.alive.values()
        assert (job is None) == taken, "a key is refused exactly while it lives"
        if job is not None:
            self.alive[job] = key

    @precondition(lambda self: self.alive)
    @rule(slots=st.integers(1, 4), owner=st.sampled_from(["w1", "w2"]))
    def claim(self, slots: int, owner: str) -> None:
        opening = Opening(KIND.name, slots, "a")
        rows = self.do(queue_repo.claim(self.connection, [opening], "here", owner, LEASE))
        self.taken(rows, suspects=False)
        alone = queue_repo.claim_suspect(self.connection, [KIND.name], "here", owner, LEASE)
        self.taken(self.do(alone), suspects=True)

    def taken(self, rows: list[Any], *, suspects: bool) -> None:
        for row in sorted(rows, key=lambda row: row["id"]):
            job = Job.load(KIND, row)
            assert job.suspect == suspects, "a suspect ran among others"
            assert (job.deaths, job.waits) == (self.deaths[job.id], self.waits[job.id])
            assert job.attempt == self.starts[job.id] + 1
            assert job.id in self.alive, "a job that ended was claimed"
            assert job.id not in self.holder, "a job that is held was claimed"
            assert all(job.claim > old.claim for old in self.claims if old.id == job.id)
            self.holder[job.id] = job.claim
            self.claims.append(job)
            self.begin_work(job)

    def begin_work(self, job: Job[Number]) -> None:
        """As the worker does it: a job beyond one of its budgets is not run but buried."""
        if job.exhausted:
            self.bury(job, mine=True)
            return
        self.starts[job.id] += 1
        assert self.starts[job.id] <= ATTEMPTS, "started beyond its budget"
        assert self.deaths[job.id] < DEATHS, "started though it kills"

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), action=st.sampled_from(AFTER_A_CLAIM), late=st.booleans())
    def act(self, data: st.DataObject, action: str, late: bool) -> None:
        """Somebody acts on any claim ever made; late, rather on one that was taken over."""
        living = [job for job in self.claims if job.id in self.alive]
        taken_over = [job for job in living if self.holder.get(job.id, job.claim) != job.claim]
        job = data.draw(st.sampled_from((late and taken_over) or living or self.claims))
        mine = self.holder.get(job.id) == job.claim
        if action.startswith("finish"):
            self.finish(job, mine, inside=action.endswith("inside"))
        elif action == "bury":
            self.bury(job, mine)
        elif action == "renew":
            self.do(queue_repo.renew(self.connection, [job], LEASE))
        else:
            after = 3600.0 if action.endswith("later") else 0.0
            failure = None if action == "give back" else FAILURE
            self.put_back(job, mine, PutBack(after, failure, away=action == "away"))

    def finish(self, job: Job[Number], mine: bool, *, inside: bool) -> None:
        if inside:
            statement = "SELECT job_finish($1, $2)"
            accepted = self.do(self.connection.fetchval(statement, job.id, job.claim))
        else:
            accepted = job.id in self.do(queue_repo.finish(self.connection, [job]))
        assert accepted == mine, "the fence let a zombie end a job, or kept its holder from it"
        if accepted:
            self.ended[job.id] += 1
            del self.alive[job.id], self.holder[job.id]

    def put_back(self, job: Job[Number], mine: bool, again: PutBack) -> None:
        accepted = self.do(queue_repo.put_back(self.connection, [(job, again)]))
        assert (job.id in accepted) == mine, "the fence let a zombie put a job back"
        if mine:
            del self.holder[job.id]
            self.starts[job.id] -= again.failure is None or again.away
            if again.failure:
                self.deaths[job.id] = max(self.deaths[job.id] - 1, 0)
                self.waits[job.id] = self.waits[job.id] + 1 if again.away else 0

    def bury(self, job: Job[Number], mine: bool) -> None:
        assert self.do(queue_repo.bury(self.connection, job, FAILURE)) == mine
        if mine:
            del self.alive[job.id], self.holder[job.id]
            self.dead.add(job.id)

    @precondition(lambda self: self.alive)
    @rule(what=st.sampled_from(IN_TIME))
    def time(self, what: str) -> None:
        if what == "time passes":
            statement = "UPDATE jobs SET run_at = now() WHERE status = 'delayed'"
            self.do(self.connection.execute(statement))
        elif what != "tend":
            statement = "UPDATE jobs SET lease_until = now() WHERE status = 'running'"
            self.do(self.connection.execute(statement))
            self.deaths.update(self.holder.keys())
            self.starts.subtract(self.holder.keys())
            self.holder.clear()
        self.do(queue_repo.tend(self.connection, [KIND.name], "here", []))
        if what == "takeover":
            self.claim(4, "w2")

    @rule(data=st.data(), action=st.sampled_from(BY_PEOPLE), key=st.sampled_from(KEYS))
    def decide(self, data: st.DataObject, action: str, key: str) -> None:
        if action.startswith("cancel"):
            self.cancel(key, running=action.endswith("running"))
        elif action == "reschedule":
            job = self.do(queue_repo.reschedule(self.connection, KIND.name, key, None, 0.0))
            assert job is None or self.alive[job] == key
        elif self.dead:
            job = data.draw(st.sampled_from(sorted(self.dead)))
            self.redrive(job) if action == "redrive" else self.discard(job)

    def cancel(self, key: str, *, running: bool) -> None:
        held = [job for job, its_key in self.alive.items() if its_key == key and job in self.holder]
        job = self.do(queue_repo.cancel(self.connection, KIND.name, key, running=running))
        assert job is None or running or job not in held, "a running job was taken away"
        if job is not None:
            assert self.alive.pop(job) == key
            self.holder.pop(job, None)
            self.ended[job] += 1

    def redrive(self, job: int) -> None:
        key = self.do(self.connection.fetchval("SELECT key FROM jobs WHERE id = $1", job))
        try:
            row = self.do(queue_repo.redrive(self.connection, job, None))
        except asyncpg.UniqueViolationError:
            assert key in self.alive.values(), "refused for no reason"
            return
        assert row is not None
        self.dead.discard(job)
        self.alive[job] = key
        self.starts[job] = self.deaths[job] = self.waits[job] = 0

    def discard(self, job: int) -> None:
        assert self.do(queue_repo.discard(self.connection, job, None)) is not None
        self.dead.discard(job)
        self.ended[job] += 1

    @invariant()
    def nothing_is_lost_doubled_or_without_a_next_time(self) -> None:
        found = self.do(self.connection.fetch("SELECT * FROM jobs"))
        assert {row["id"] for row in found} == self.alive.keys() | self.dead
        assert all(count == 1 for count in self.ended.values()), "a job ended twice"
        for row in found:
            held = row["id"] in self.holder
            assert (row["status"] == "running") == held, dict(row)
            assert (row["lease_until"] is not None) == held, dict(row)
            assert (row["owner"] is not None) == held, dict(row)
            assert row["attempts"] >= 0, dict(row)
            assert row["status"] != "queued" or row["deaths"] < SUSPECT, dict(row)
            assert (row["status"] == "dead") == (row["id"] in self.dead), dict(row)

    def teardown(self) -> None:
        """Whatever state it was left in, workers that go on bring every job to its end."""
        for _ in range(LONGEST_DRAIN):
            if not self.alive:
                break
            self.time("time passes")
            self.time("takeover")
            for job in [job for job in self.claims if self.holder.get(job.id) == job.claim]:
                self.finish(job, mine=True, inside=False)
        assert not self.alive, "jobs are waiting that nobody will ever run"


async def connect(url: str) -> Connection:
    connection = await asyncpg.connect(url)
    await prepare(connection)
    return connection
