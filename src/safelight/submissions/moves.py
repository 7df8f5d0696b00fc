"""The one way a submission's state changes.

In a unit of work that has its row locked: the move is checked, written, and told. A state that ends
the matter takes with it what only served the way there: the values beside it, a job that waits, and
(a while later, when no run can still be storing something) the objects.
"""

from dataclasses import dataclass, field
from typing import Any

from safelight.infra.activity import Unit
from safelight.infra.history import SYSTEM, Line
from safelight.submissions import repo
from safelight.submissions.jobs import PROCESS, RELEASE, RELEASE_AFTER_SECONDS, SubmissionPayload
from safelight.submissions.lifecycle import MACHINE, Rejection, Submission, SubmissionState


@dataclass(frozen=True, slots=True)
class SubmissionMove:
    """`columns` are what changes together with the state."""

    to: SubmissionState
    rejection: Rejection | None = None
    actor: dict[str, str] = field(default_factory=lambda: SYSTEM)
    reason: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)


async def move(unit: Unit, before: Submission, change: SubmissionMove) -> None:
    MACHINE.check(before.state, change.to)
    columns = dict(change.columns)
    if change.rejection:
        columns["rejection"] = change.rejection.to_json()
    await repo.move(unit.connection, before.id, change.to, unit.now, columns)
    if change.to.over:
        await _tidy(unit, before, change.to)
    unit.tell(_told(before, change))


async def _tidy(unit: Unit, before: Submission, state: SubmissionState) -> None:
    await repo.forget(unit.connection, before.id)
    await unit.cancel(PROCESS, before.id)
    payload, key = SubmissionPayload(before.id), f"{before.id}:{state}"
    await unit.enqueue(RELEASE, payload, key=key, run_in=RELEASE_AFTER_SECONDS)


def received(submission: Submission) -> Line:
    """The first line of its history."""
    data = {
        "id": submission.id,
        "from": None,
        "to": submission.state,
        "actor": submission.submitted_by,
    }
    return _line(submission, data)


def _told(before: Submission, change: SubmissionMove) -> Line:
    data: dict[str, Any] = {
        "id": before.id,
        "from": before.state,
        "to": change.to,
        "actor": change.actor,
    }
    if change.rejection:
        data["error"] = change.rejection.to_json()
    if reason := change.reason or (change.rejection and change.rejection.message):
        data["reason"] = reason
    return _line(before, data)


def _line(submission: Submission, data: dict[str, Any]) -> Line:
    return Line(
        submission.subject, "submission_state_changed", data, also=submission.source_subject
    )
