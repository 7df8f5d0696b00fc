"""The consumer: takes a submission as far as machines can, within one time limit.

Guarantees
- It resumes where the row stands: tiers that are through are not run again.
- Every write locks the row and compares the run's number and the state it started from. A worker
  that lost its job to another, or a submission that was ended meanwhile, is noticed there and
  nowhere else; what such a run still does changes nothing.
- The rendition's object, the move, the question to a person and the end of the job are one unit of
  work, so there is never a published submission without its picture. Nothing serves the object
  before its submission is PUBLISHED; a decision made later needs no more work than one row.
- What the organization knows is asked for again in that unit: of two equal ones that come at once
  the second is put before a person, and one that was ruled out meanwhile is rejected.
- What goes wrong is classified, recorded and counted here, once, and so is whether something was
  away; it ends the job, and only recovery starts another. The tiers themselves just raise.
- Killed anywhere, it leaves a row in its last committed state, an inflight record, and a job whose
  lease ends: the next claim counts the death and goes on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, assert_never

import structlog

from safelight.approvals.lifecycle import Subject
from safelight.approvals.workflow import Approvals, Question
from safelight.errors import SafelightError
from safelight.infra.activity import Unit, Units
from safelight.infra.away import is_away
from safelight.infra.db import AWAY, Connection
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.queue.jobs import Done, Failure, Job, LeaseLost, Verdict
from safelight.objects import repo as objects
from safelight.objects.store import Facts, Landed, ObjectStore
from safelight.sandbox.protocol import Rendition
from safelight.submissions import repo
from safelight.submissions.findings import Ask, Fail, Finding, Pass, judge
from safelight.submissions.jobs import SubmissionPayload
from safelight.submissions.known_pictures import look_again
from safelight.submissions.lifecycle import (
    SUBJECT,
    Rejection,
    Submission,
    SubmissionState,
    rendition_key,
)
from safelight.submissions.moves import SubmissionMove, move
from safelight.submissions.policies.policy import Looks
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.failures import FailureClass, classify, in_words
from safelight.submissions.recovery.records import NO_WORD, Inflight
from safelight.submissions.rules.registry import CODES
from safelight.submissions.scan import Scan, Unanswered, elsewhere, was_waiting

_LONGEST_TITLE = 200


class ScanTimeout(SafelightError, TimeoutError):
    """Checking this image took longer than its time limit."""

    code = "SCAN_TIMEOUT"


class MovedOn(Exception):
    """The submission was ended while this run was at work on it."""


@dataclass(frozen=True, slots=True)
class Run:
    """`submission` is as this run last wrote or read it; `again`: another one failed before."""

    job: Job[SubmissionPayload]
    submission: Submission
    record: Inflight
    again: bool


@dataclass(frozen=True, slots=True)
class Runs:
    """What only the present run of a submission may write."""

    units: Units
    store: ObjectStore
    approvals: Approvals

    async def begin(self, job: Job[SubmissionPayload]) -> Run | None:
        """Writes the inflight record before anything else. One without an end tells of a worker
        that died: it is counted here, once. None: there is nothing to do any more."""
        async with self.units.open(job.organization) as unit:
            submission = await repo.lock(unit.connection, job.payload.submissionId)
            if submission is None or not submission.state.under_way:
                return None
            before = await _bury(unit, submission)
            number = await repo.start_run(unit.connection, submission.id)
            attempt = before.attempt + 1 if before else submission.run + 1
            record = Inflight(submission.id, attempt, submission.state, unit.now, unit.now)
            await repo.put_inflight(unit.connection, record, unit.now)
        return Run(job, replace(submission, run=number), record, before is not None)

    async def enter(self, run: Run, stage: SubmissionState, columns: dict[str, Any]) -> Run:
        """Moves to a scanning stage."""
        async with self._holding(run) as unit:
            await move(unit, run.submission, SubmissionMove(stage, columns=columns))
            record = run.record.entering(stage, unit.now)
            await repo.put_inflight(unit.connection, record, unit.now)
        moved = replace(run.submission, state=stage, updated_at=unit.now, **columns)
        return replace(run, submission=moved, record=record)

    async def reject(
        self, run: Run, found: list[Finding], why: Rejection, looks: Looks | None = None
    ) -> None:
        """`looks`, where they are not known yet: what was rejected can still be ruled out."""
        columns = _findings(found) | (looks.to_row() if looks else {})
        change = SubmissionMove(SubmissionState.REJECTED, rejection=why, columns=columns)
        async with self._holding(run) as unit:
            await move(unit, run.submission, change)
            unit.ends(run.job)

    async def publish(self, run: Run, rendition: Rendition, found: list[Finding]) -> None:
        """Stores the rendition, which makes it public or puts it before a person; or is in vain,
        where the picture was ruled out meanwhile."""
        key = rendition_key(run.submission.id)
        facts = Facts(rendition.content_type, {"organizationId": run.submission.organization})

        async def hold() -> None:
            """Asked before a bucket is written: raises when this run is not wanted any more."""
            async with self._holding(run):
                pass

        async def write(landed: Landed) -> None:
            async with self._holding(run) as unit:
                await objects.put(unit.connection, key, landed, facts, unit.now)
                await self._finish(unit, run, _columns(rendition, landed), found)
                unit.ends(run.job)

        await reach("submissions.store_rendition")
        async with elsewhere():
            await self.store.put_with(key, _stream(rendition.data), facts, write, hold)

    async def _finish(
        self, unit: Unit, run: Run, columns: dict[str, Any], found: list[Finding]
    ) -> None:
        known = await look_again(unit.connection, run.submission, found)
        columns |= _findings(known)
        verdict = judge(known, CODES)
        match verdict:
            case Pass():
                change = SubmissionMove(SubmissionState.PUBLISHED, columns=columns)
                await move(unit, run.submission, change)
            case Ask(doubts):
                approval, asked = await self.approvals.ask(unit, _question(run, doubts))
                columns["approval_id"] = approval.id
                change = SubmissionMove(SubmissionState.AWAITING_APPROVAL, columns=columns)
                await move(unit, run.submission, change)
                unit.tell(asked)
                await repo.clear_inflight(unit.connection, run.submission.id)
            case Fail(rejection):
                change = SubmissionMove(
                    SubmissionState.REJECTED, rejection=rejection, columns=_findings(known)
                )
                await move(unit, run.submission, change)
            case _:
                assert_never(verdict)

    async def fail(self, run: Run, error: BaseException) -> FailureClass:
        """Classified, recorded, counted, told, and the end of the job: all or nothing. Recovery
        starts the next run."""
        kind, words = classify(error), in_words(error)
        async with self._owning(run) as unit:
            record = await repo.inflight(unit.connection, run.submission.id, unit.now) or run.record
            failed = record.failed(kind, words, unit.now, away=is_away(error))
            await repo.put_inflight(unit.connection, failed, unit.now)
            await repo.count_incident(unit.connection, kind, unit.now - record.started_at, unit.now)
            unit.tell(_attempt(run.submission, record, kind, words))
            unit.ends(run.job)
        return kind

    async def hand_back(self, run: Run) -> None:
        """The worker stops: the job goes back unharmed, and nothing went wrong."""
        async with self._owning(run) as unit:
            await repo.clear_inflight(unit.connection, run.submission.id)

    async def on_dead(self, unit: Unit, job: Job[SubmissionPayload], _: Failure) -> None:
        """The last worker died on it: its incident is counted where the job is buried."""
        submission = await repo.lock(unit.connection, job.payload.submissionId)
        if submission is not None and submission.state.under_way:
            await _bury(unit, submission)

    @asynccontextmanager
    async def _holding(self, run: Run) -> AsyncIterator[Unit]:
        async with self.units.open(run.submission.organization) as unit:
            await _hold(unit.connection, run)
            yield unit

    @asynccontextmanager
    async def _owning(self, run: Run) -> AsyncIterator[Unit]:
        """Whatever stage this run has come to."""
        async with self.units.open(run.submission.organization) as unit:
            await _own(unit.connection, run)
            yield unit


async def _hold(connection: Connection, run: Run) -> None:
    """Locks the row; raises unless it is this run's, and in the state it was left in."""
    if (await _own(connection, run)).state is not run.submission.state:
        raise MovedOn


async def _own(connection: Connection, run: Run) -> Submission:
    found = await repo.lock(connection, run.submission.id)
    if found is None or not found.state.under_way:
        raise MovedOn
    if found.run != run.submission.run:
        raise LeaseLost
    return found


async def _bury(unit: Unit, submission: Submission) -> Inflight | None:
    """Counts and tells the end of whoever was at work and never said how it went."""
    before = await repo.inflight(unit.connection, submission.id, unit.now)
    if before is not None and before.unfinished:
        kind = FailureClass.SCAN_TIMEOUT
        await repo.count_incident(unit.connection, kind, unit.now - before.started_at, unit.now)
        buried = before.failed(kind, NO_WORD, unit.now)
        await repo.put_inflight(unit.connection, buried, unit.now)
        unit.tell(_attempt(submission, before, kind, NO_WORD))
    return before


def _attempt(submission: Submission, record: Inflight, kind: FailureClass, words: str) -> Line:
    data = {
        "id": submission.id,
        "attempt": record.attempt,
        "stage": record.stage,
        "error": {"code": kind, "message": words},
    }
    return Line(submission.subject, "run_attempt", data)


def _findings(found: list[Finding]) -> dict[str, Any]:
    return {"findings": [finding.to_json() for finding in found]}


def _columns(rendition: Rendition, landed: Landed) -> dict[str, Any]:
    return {
        "rendition_type": rendition.content_type,
        "rendition_size": len(rendition.data),
        "rendition_etag": landed.sha256,
    }


def _question(run: Run, doubts: tuple[Finding, ...]) -> Question:
    submission = run.submission
    name = submission.title or submission.source_id
    return Question(
        organization=submission.organization,
        title=f"Publish {name}?"[:_LONGEST_TITLE],
        description="\n".join(doubt.message for doubt in doubts),
        requested_by=submission.submitted_by,
        subject=Subject(SUBJECT, submission.id),
    )


async def _stream(data: bytes) -> AsyncIterator[bytes]:
    yield data


@dataclass(frozen=True, slots=True)
class Process:
    runs: Runs
    scan: Scan
    tempo: Tempo

    async def handle(self, job: Job[SubmissionPayload]) -> Verdict:
        run = await self.runs.begin(job)
        if run is None:
            return Done()
        try:
            return await self._bounded(run)
        except MovedOn:
            return Done()
        except asyncio.CancelledError:
            with suppress(LeaseLost, MovedOn, *AWAY):
                await self.runs.hand_back(run)
            raise

    async def _bounded(self, run: Run) -> Verdict:
        try:
            await self._in_time(run)
        except (LeaseLost, MovedOn):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody has to hear of it
            kind = await self.runs.fail(run, error)
            structlog.get_logger().warning(
                "submission.failed",
                submissionId=run.submission.id,
                classification=kind,
                error=repr(error),
            )
            return Done(already=True, failed=True, again=run.again)
        return Done(already=True, again=run.again)

    async def _in_time(self, run: Run) -> None:
        """A limit that was reached is the image's fault, unless somebody else had yet to answer."""
        limit = asyncio.timeout(self.tempo.limit_seconds)
        try:
            async with limit:
                await self._tiers(run)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise (Unanswered if was_waiting(error) else ScanTimeout) from error

    async def _tiers(self, run: Run) -> None:
        if run.submission.state is SubmissionState.RECEIVED:
            run = await self.runs.enter(run, SubmissionState.TIER1_SCANNING, {})
        if run.submission.state is SubmissionState.TIER1_SCANNING:
            passed = await self._tier1(run)
            if passed is None:
                return
            run = passed
        await self._tier2(run)

    async def _tier1(self, run: Run) -> Run | None:
        """None: it was rejected."""
        await reach("submissions.tier1")
        seen = await self.scan.tier1(run.submission)
        verdict = judge(seen.findings, CODES)
        match verdict:
            case Fail(rejection):
                await self.runs.reject(run, seen.findings, rejection, seen.looks)
                return None
            case Pass() | Ask():  # the question is put when all of it is known
                columns = _findings(seen.findings) | seen.looks.to_row()
                return await self.runs.enter(run, SubmissionState.TIER2_SCANNING, columns)
            case _:
                assert_never(verdict)

    async def _tier2(self, run: Run) -> None:
        await reach("submissions.tier2")
        seen = await self.scan.tier2(run.submission)
        found = [*map(Finding.load, run.submission.findings), *seen.findings]
        verdict = judge(found, CODES)
        match verdict:
            case Fail(rejection):
                await self.runs.reject(run, found, rejection)
            case Pass() | Ask():
                if seen.rendition is not None:
                    await self.runs.publish(run, seen.rendition, found)
            case _:
                assert_never(verdict)
