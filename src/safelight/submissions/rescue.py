"""Recovery: finds submissions that do not get on, and starts them again or gives them up.

Guarantees
- One process at a time looks (an advisory lock); two that look all the same spend one retry, since
  each candidate is judged under its row's lock from what is read after it, and the budget changes
  by compare-and-set in the transaction that enqueues.
- Killed anywhere, every candidate is either dealt with or as it was.
- Waiting is not being stuck: what has a job in the queue is left alone, however long it waits.
"""

from dataclasses import dataclass

import structlog

from safelight.infra import activity, kv
from safelight.infra.bus import Bus
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.infra.queue.queue import Queue
from safelight.submissions import budget, inflight, repo
from safelight.submissions.failures import FailureClass
from safelight.submissions.findings import Rejection
from safelight.submissions.inflight import Inflight
from safelight.submissions.kinds import PROCESS, About
from safelight.submissions.lifecycle import RejectionCode, State
from safelight.submissions.moves import SYSTEM, Change, Moves
from safelight.submissions.recovery import Again, Facts, GiveUp, Leave, decide
from safelight.submissions.repo import Seen
from safelight.submissions.tempo import Tempo
from safelight.submissions.timeouts import record_timeout

GAVE_UP = Rejection(
    RejectionCode.STUCK_EXHAUSTED,
    "We could not finish checking this image, although we tried several times. It is not your "
    "image's fault; please submit it again later.",
)
_BATCH = 200


class Overtaken(Exception):
    """Somebody else has just dealt with it; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Rescue:
    db: Database
    queue: Queue
    bus: Bus
    clock: Clock
    moves: Moves
    tempo: Tempo

    async def run(self) -> int:
        """How many it dealt with; none when another process is looking already."""
        async with self.db.transaction() as connection:
            if not await repo.lock_recovery(connection):
                return 0
            return await self._look()

    async def _look(self) -> int:
        dealt, after = 0, (0, "")
        before = self.clock.now_ms() - self.tempo.stuck_after_ms
        while found := await repo.stuck(self.db, before, after, _BATCH, self.clock.now_ms()):
            for seen in found:
                dealt += await self.one(seen.submission.id)
            last = found[-1].submission
            after = (last.updated_at, last.id)
        return dealt

    async def one(self, submission_id: str) -> bool:
        """Judges one candidate by itself; whether anything had to be done."""
        try:
            async with self.db.transaction() as connection:
                now = self.clock.now_ms()
                seen = await repo.see_locked(connection, submission_id, now)
                if seen is None:
                    return False
                decision = decide(facts_of(seen), now, self.tempo)
                if isinstance(decision, Leave):
                    return False
                await self._carry_out(connection, seen, decision, now)
        except Overtaken:
            return False
        self.queue.wake(PROCESS)
        self.bus.announce("activity", seen.submission.organization)
        return True

    async def _carry_out(
        self, connection: Connection, seen: Seen, decision: Again | GiveUp, now: int
    ) -> None:
        if decision.incident:
            await self._count(connection, seen, decision.incident, now)
        if isinstance(decision, Again):
            told = await self._again(connection, seen, decision, now)
        else:
            told = await self._give_up(connection, seen)
        await reach("submissions.tell_recovery")
        await activity.append(connection, seen.submission.organization, now, told)

    async def _again(self, connection: Connection, seen: Seen, decision: Again, now: int) -> Line:
        submission = seen.submission
        key, value = budget.key(submission.id), decision.budget.to_json()
        await reach("submissions.spend")
        spent = await kv.compare_and_set(
            connection, key, seen.budget, value, now=now, ttl_ms=budget.TTL_MS
        )
        if not spent:
            raise Overtaken
        if seen.legacy is not None:
            await reach("submissions.drop_legacy")
            await kv.delete(connection, budget.legacy_key(submission.id))
        job = await self.queue.enqueue(
            connection,
            PROCESS,
            About(submission.id),
            organization=submission.organization,
            key=submission.id,
        )
        if job is None:
            raise Overtaken
        structlog.get_logger().info(
            "submission.retried", submissionId=submission.id, count=decision.budget.count
        )
        data = {"id": submission.id, "attempt": decision.budget.count, "actor": SYSTEM, **value}
        return Line(submission.subject, "submission_retried", data)

    async def _give_up(self, connection: Connection, seen: Seen) -> Line:
        structlog.get_logger().error("submission.given_up", submissionId=seen.submission.id)
        change = Change(State.REJECTED, rejection=GAVE_UP)
        return await self.moves.make(connection, seen.submission, change)

    async def _count(
        self, connection: Connection, seen: Seen, incident: FailureClass, now: int
    ) -> None:
        """An incident that no consumer lived to tell. The record is closed with it, so that the
        next claim does not count it again."""
        await record_timeout(connection, incident, now - seen.submission.updated_at, now)
        if seen.inflight is None:
            return
        words = "Its worker stopped without a word."
        closed = Inflight.load(seen.inflight).failed(incident, words, now)
        key = inflight.key(seen.submission.id)
        await reach("submissions.close_inflight")
        await kv.put(connection, key, closed.to_json(), now=now, ttl_ms=inflight.TTL_MS)


def facts_of(seen: Seen) -> Facts:
    submission = seen.submission
    return Facts(
        submission.state,
        submission.updated_at,
        seen.waiting,
        None if seen.inflight is None else Inflight.load(seen.inflight),
        budget.read(seen.budget, seen.legacy),
    )
