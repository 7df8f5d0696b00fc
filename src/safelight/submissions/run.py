"""One run of one submission, and the writes that only its present run may make.

Every write locks the row and compares the run's number and the state it started from. A worker that
lost its job to another, or a submission that was ended meanwhile, is noticed there and nowhere
else; what such a run still does changes nothing.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from safelight.infra import activity, kv
from safelight.infra.bus import Bus
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.infra.queue.jobs import Job, LeaseLost
from safelight.submissions import inflight, repo
from safelight.submissions.failures import FailureClass, classify, in_words
from safelight.submissions.findings import Finding, Rejection
from safelight.submissions.inflight import Inflight
from safelight.submissions.kinds import About
from safelight.submissions.lifecycle import UNDER_WAY, State
from safelight.submissions.moves import Change, Moves
from safelight.submissions.repo import Submission
from safelight.submissions.timeouts import record_timeout


class MovedOn(Exception):
    """The submission was ended while this run was at work on it."""


@dataclass(frozen=True, slots=True)
class Run:
    """`submission` is as this run last wrote or read it."""

    job: Job[About]
    submission: Submission
    record: Inflight

    def now(self, submission: Submission, record: Inflight) -> "Run":
        return replace(self, submission=submission, record=record)


@dataclass(frozen=True, slots=True)
class Runs:
    db: Database
    bus: Bus
    clock: Clock
    moves: Moves

    async def begin(self, job: Job[About]) -> Run | None:
        """Writes the inflight record before anything else. One without an end tells of a worker
        that died: it is counted here, once. None: there is nothing to do any more."""
        now = self.clock.now_ms()
        async with self.db.transaction() as connection:
            submission = await repo.lock(connection, job.payload.submissionId)
            if submission is None or submission.state not in UNDER_WAY:
                return None
            before = await self._record_of(connection, submission.id, now)
            told = await self._bury(connection, submission, before, now)
            await reach("submissions.start_run")
            number = await repo.start_run(connection, submission.id)
            record = await self._fresh(connection, submission, before, now)
            await self._append(connection, submission, now, *told)
        return Run(job, replace(submission, run=number), record)

    async def enter(self, run: Run, stage: State, columns: dict[str, Any]) -> Run:
        """Moves to a scanning stage."""
        now = self.clock.now_ms()
        record = run.record.entering(stage, now)
        async with self.holding(run) as connection:
            told = await self.moves.make(connection, run.submission, Change(stage, columns=columns))
            await self._put(connection, record, now)
            await self._append(connection, run.submission, now, told)
        self.bus.announce("activity", run.submission.organization)
        moved = replace(run.submission, state=stage, updated_at=now, **columns)
        return run.now(moved, record)

    async def reject(self, run: Run, found: list[Finding], why: Rejection) -> None:
        now = self.clock.now_ms()
        columns = {"findings": [finding.to_json() for finding in found]}
        change = Change(State.REJECTED, rejection=why, columns=columns)
        async with self.holding(run) as connection:
            told = await self.moves.make(connection, run.submission, change)
            await self.finish(connection, run.job)
            await self._append(connection, run.submission, now, told)
        self.bus.announce("activity", run.submission.organization)

    async def fail(self, run: Run, error: BaseException) -> FailureClass:
        """Classified, recorded, counted, told, and the end of the job: all or nothing. Recovery
        starts the next run."""
        now = self.clock.now_ms()
        kind, words = classify(error), in_words(error)
        async with self._owning(run) as connection:
            record = await self._record_of(connection, run.submission.id, now) or run.record
            await self._put(connection, record.failed(kind, words, now), now)
            await record_timeout(connection, kind, now - record.started_at, now)
            await self.finish(connection, run.job)
            told = _attempt(run.submission, record, kind, words)
            await self._append(connection, run.submission, now, told)
        self.bus.announce("activity", run.submission.organization)
        return kind

    async def hand_back(self, run: Run) -> None:
        """The worker stops: the job goes back unharmed, and nothing went wrong."""
        async with self._owning(run) as connection:
            await reach("submissions.hand_back")
            await kv.delete(connection, inflight.key(run.submission.id))

    async def on_dead(self, connection: Connection, job: Job[About]) -> list[Line]:
        """The last worker died on it: its incident is counted where the job is buried."""
        submission = await repo.lock(connection, job.payload.submissionId)
        if submission is None or submission.state not in UNDER_WAY:
            return []
        now = self.clock.now_ms()
        before = await self._record_of(connection, submission.id, now)
        return await self._bury(connection, submission, before, now)

    @asynccontextmanager
    async def holding(self, run: Run) -> AsyncIterator[Connection]:
        async with self.db.transaction() as connection:
            await self.hold(connection, run)
            yield connection

    async def hold(self, connection: Connection, run: Run) -> None:
        """Locks the row; raises unless it is this run's, and in the state it was left in."""
        found = await self._own(connection, run)
        if found.state is not run.submission.state:
            raise MovedOn

    @asynccontextmanager
    async def _owning(self, run: Run) -> AsyncIterator[Connection]:
        """Whatever stage this run has come to."""
        async with self.db.transaction() as connection:
            await self._own(connection, run)
            yield connection

    async def _own(self, connection: Connection, run: Run) -> Submission:
        found = await repo.lock(connection, run.submission.id)
        if found is None or found.state not in UNDER_WAY:
            raise MovedOn
        if found.run != run.submission.run:
            raise LeaseLost
        return found

    async def finish(self, connection: Connection, job: Job[About]) -> None:
        await reach("submissions.finish_job")
        if not await repo.finish_job(connection, job.id, job.claim):
            raise LeaseLost

    async def _record_of(
        self, connection: Connection, submission_id: str, now: int
    ) -> Inflight | None:
        value = await kv.get(connection, inflight.key(submission_id), now=now)
        return None if value is None else Inflight.load(value)

    async def _bury(
        self, connection: Connection, submission: Submission, before: Inflight | None, now: int
    ) -> list[Line]:
        if before is None or not before.unfinished:
            return []
        kind, words = FailureClass.SCAN_TIMEOUT, "Its worker stopped without a word."
        await record_timeout(connection, kind, now - before.started_at, now)
        await self._put(connection, before.failed(kind, words, now), now)
        return [_attempt(submission, before, kind, words)]

    async def _fresh(
        self, connection: Connection, submission: Submission, before: Inflight | None, now: int
    ) -> Inflight:
        attempt = before.attempt + 1 if before else submission.run + 1
        record = Inflight(submission.id, attempt, submission.state, now, now)
        await self._put(connection, record, now)
        return record

    async def _put(self, connection: Connection, record: Inflight, now: int) -> None:
        key = inflight.key(record.submission_id)
        await reach("submissions.put_inflight")
        await kv.put(connection, key, record.to_json(), now=now, ttl_ms=inflight.TTL_MS)

    async def _append(
        self, connection: Connection, submission: Submission, now: int, *told: Line
    ) -> None:
        if told:
            await reach("submissions.tell_run")
            await activity.append(connection, submission.organization, now, *told)


def _attempt(submission: Submission, record: Inflight, kind: FailureClass, words: str) -> Line:
    data = {
        "id": submission.id,
        "attempt": record.attempt,
        "stage": record.stage,
        "error": {"code": kind, "message": words},
    }
    return Line(submission.subject, "run_attempt", data)
