"""Recovery: finds submissions that do not get on, and starts them again or gives them up. Also what
operators see of it: those that are stuck, and how often processing failed by the hour.

Guarantees
- One process at a time looks (an advisory lock); two that look all the same spend one retry, since
  each candidate is judged under its row's lock from what is read after it, and the budget changes
  by compare-and-set in the unit of work that enqueues.
- Killed anywhere, every candidate is either dealt with or as it was.
- Waiting is not being stuck: what has a job in the queue is left alone, however long it waits.
- Away is not failure: what waits for something that is away is started again with the same pauses
  for a day, and only then spends of its budget.
- Buckets of incidents are read by key: nothing is ever computed by looking through submissions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from safelight.infra import kv
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Database
from safelight.infra.history import SYSTEM, Line
from safelight.infra.injected import iso
from safelight.submissions import repo
from safelight.submissions.jobs import PROCESS, SubmissionPayload
from safelight.submissions.lifecycle import Rejection, RejectionCode, Submission, SubmissionState
from safelight.submissions.moves import SubmissionMove, move
from safelight.submissions.recovery.decide import (
    GiveUp,
    Leave,
    StartAgain,
    Tempo,
    awaited,
    decide,
)
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import (
    HOUR_MS,
    NO_WORD,
    Inflight,
    SubmissionView,
    hour_of,
    incidents_key,
)

GAVE_UP = Rejection(
    RejectionCode.STUCK_EXHAUSTED,
    "We could not finish checking this image, although we tried several times. It is not your "
    "image's fault; please submit it again later.",
)
_BATCH = 200
_MOST_SHOWN = 200


class Overtaken(Exception):
    """Somebody else has just dealt with it; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Recovery:
    units: Units
    tempo: Tempo

    async def run(self) -> int:
        """How many it dealt with; none when another process is looking already."""
        dealt, after = 0, (0, "")
        db, clock = self.units.db, self.units.clock
        before = clock.now_ms() - self.tempo.stuck_after_ms
        while found := await repo.stuck(db, before, after, _BATCH, clock.now_ms()):
            # Writes nothing, and holds a lock for as long as one batch takes.
            async with db.transaction() as connection:
                if not await repo.lock_recovery(connection):
                    break
                for view in found:
                    dealt += await self.one(view.submission.organization, view.submission.id)
            last = found[-1].submission
            after = (last.updated_at, last.id)
        return dealt

    async def one(self, organization: str, submission_id: str) -> bool:
        """Judges one candidate by itself; whether anything had to be done."""
        try:
            async with self.units.open(organization) as unit:
                view = await repo.view_locked(unit.connection, submission_id, unit.now)
                return view is not None and await self._judge(unit, view)
        except Overtaken:
            return False

    async def _judge(self, unit: Unit, view: SubmissionView) -> bool:
        progress = view.progress
        decision = decide(progress, unit.now, self.tempo)
        match decision:
            case Leave():
                return False
            case StartAgain():
                await count_unseen(unit, view, progress.inflight, decision.incident)
                await start_again(unit, view, decision)
            case GiveUp():
                await count_unseen(unit, view, progress.inflight, decision.incident)
                structlog.get_logger().error("submission.given_up", submissionId=view.submission.id)
                change = SubmissionMove(SubmissionState.REJECTED, rejection=GAVE_UP)
                await move(unit, view.submission, change)
            case _:
                assert_never(decision)
        return True


async def start_again(
    unit: Unit, view: SubmissionView, decision: StartAgain, actor: dict[str, str] = SYSTEM
) -> None:
    submission, budget = view.submission, decision.budget
    if not await repo.spend(unit.connection, view, budget, unit.now):
        raise Overtaken
    if not await unit.enqueue(PROCESS, SubmissionPayload(submission.id), key=submission.id):
        raise Overtaken
    structlog.get_logger().info(
        "submission.retried", submissionId=submission.id, count=budget.count, waits=budget.waits
    )
    data = {"id": submission.id, "attempt": budget.starts, "actor": actor}
    unit.tell(Line(submission.subject, "submission_retried", data | budget.to_json()))


async def count_unseen(
    unit: Unit, view: SubmissionView, record: Inflight | None, incident: FailureClass | None
) -> None:
    """An incident that no consumer lived to tell. The record is closed with it, so that the next
    claim does not count it again."""
    if incident is None:
        return
    stuck_for = unit.now - view.submission.updated_at
    await repo.count_incident(unit.connection, incident, stuck_for, unit.now)
    if record is not None:
        closed = record.failed(incident, NO_WORD, unit.now)
        await repo.put_inflight(unit.connection, closed, unit.now)


# What operators see


async def timeouts(db: Database, now: int, hours: int = 24) -> dict[str, Any]:
    """The last hours, the present one included: only those, and those classes, that occurred."""
    wanted = [hour_of(now) - back * HOUR_MS for back in range(hours)]
    keys = [incidents_key(hour, kind) for hour in wanted for kind in FailureClass]
    found = await kv.get_many(db, keys, now=now)
    rows = sorted(found, key=lambda row: (row["hour"], row["classification"]))
    return {"hours": rows, "totals": _totals(rows)}


def _totals(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    totals: dict[str, dict[str, int]] = {}
    for row in rows:
        total = totals.setdefault(row["classification"], {"count": 0, "totalDurationMs": 0})
        total["count"] += row["count"]
        total["totalDurationMs"] += row["totalDurationMs"]
    return totals


@dataclass(frozen=True, slots=True)
class StuckSubmission:
    submission: Submission
    id: str
    state: SubmissionState
    stage: SubmissionState
    stuck_for_ms: int
    classification: FailureClass | None
    away: bool
    attempt: int
    next_retry_after: int | None

    def to_json(self) -> dict[str, Any]:
        due = self.next_retry_after
        return {
            "submissionId": self.id,
            "state": self.state,
            "stage": self.stage,
            "stuckForMs": self.stuck_for_ms,
            "classification": self.classification,
            "away": self.away,
            "attempt": self.attempt,
            "nextRetryAfter": None if due is None else iso(due),
        }


async def stuck(db: Database, now: int, tempo: Tempo) -> list[StuckSubmission]:
    """Those that recovery looks at, longest first."""
    found = await repo.stuck(db, now - tempo.stuck_after_ms, (0, ""), _MOST_SHOWN, now)
    return [_stuck(view, now) for view in found]


def _stuck(view: SubmissionView, now: int) -> StuckSubmission:
    submission, progress = view.submission, view.progress
    record, away = progress.inflight, awaited(progress, now)
    return StuckSubmission(
        submission=submission,
        id=submission.id,
        state=submission.state,
        stage=record.stage if record else submission.state,
        stuck_for_ms=now - submission.updated_at,
        classification=record.error.classification if record and record.error else None,
        away=away is not None,
        attempt=record.attempt if record else submission.run,
        next_retry_after=progress.budget.next_retry_after,
    )
