"""The one way a submission's state changes.

Inside a transaction that has its row locked: the move is checked, written, and told. A state that
ends the matter takes with it what only served the way there: the inflight record, the budget, a job
that waits, and (a while later, when no run can still be storing something) the objects.
"""

from dataclasses import dataclass, field
from typing import Any

from safelight.infra import kv
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.infra.queue.queue import Queue
from safelight.submissions import budget, inflight, repo
from safelight.submissions.findings import Rejection
from safelight.submissions.kinds import PROCESS, RELEASE, RELEASE_AFTER_SECONDS, About
from safelight.submissions.lifecycle import TERMINAL, State, check
from safelight.submissions.repo import Submission

SYSTEM = {"type": "system", "name": "safelight"}


@dataclass(frozen=True, slots=True)
class Change:
    """`columns` are what changes together with the state."""

    to: State
    rejection: Rejection | None = None
    actor: dict[str, str] = field(default_factory=lambda: SYSTEM)
    reason: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moves:
    queue: Queue
    clock: Clock

    async def make(self, connection: Connection, before: Submission, change: Change) -> Line:
        """Returns the history, which the caller appends as the transaction's last statement."""
        check(before.state, change.to)
        columns = dict(change.columns)
        if change.rejection:
            columns["rejection"] = change.rejection.to_json()
        await reach("submissions.move")
        await repo.move(connection, before.id, change.to, self.clock.now_ms(), columns)
        if change.to in TERMINAL:
            await self._tidy(connection, before, change.to)
        return _told(before, change)

    async def _tidy(self, connection: Connection, before: Submission, state: State) -> None:
        await reach("submissions.forget")
        await forget(connection, before.id)
        await self.queue.cancel(connection, PROCESS, before.id)
        await self.queue.enqueue(
            connection,
            RELEASE,
            About(before.id),
            organization=before.organization,
            key=f"{before.id}:{state}",
            run_in=RELEASE_AFTER_SECONDS,
        )


async def forget(connection: Connection, submission_id: str) -> None:
    """What expires anyway, and is of no use once the submission is over."""
    for key in (
        inflight.key(submission_id),
        budget.key(submission_id),
        budget.legacy_key(submission_id),
    ):
        await kv.delete(connection, key)


def received(submission: Submission) -> Line:
    """The first line of its history."""
    data = {
        "id": submission.id,
        "from": None,
        "to": submission.state,
        "actor": submission.submitted_by,
    }
    return _entry(submission, data)


def _told(before: Submission, change: Change) -> Line:
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
    return _entry(before, data)


def _entry(submission: Submission, data: dict[str, Any]) -> Line:
    return Line(
        submission.subject, "submission_state_changed", data, also=submission.source_subject
    )
