"""Ending a submission from outside: its submitter takes it back, or its source is gone.

One that is published is withdrawn, one that is on its way is rejected; a question that waits for a
person is called off with it. One that is over stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from safelight.approvals.workflow import Approvals
from safelight.errors import NotFound
from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.submissions import repo
from safelight.submissions.findings import Rejection
from safelight.submissions.lifecycle import RejectionCode, State
from safelight.submissions.moves import SYSTEM, Change, Moves
from safelight.submissions.repo import Submission

OVER = frozenset({State.REJECTED, State.WITHDRAWN})


class UnknownSubmission(NotFound):
    """There is no such submission."""


@dataclass(frozen=True, slots=True)
class End:
    db: Database
    bus: Bus
    clock: Clock
    moves: Moves
    approvals: Approvals

    async def withdraw(self, submission_id: str, actor: dict[str, str]) -> None:
        """Again does nothing."""
        why = Rejection(RejectionCode.POLICY, f"Withdrawn by {actor['name']}.")
        await self._end(submission_id, why, actor)

    async def source_gone(self, submission: Submission) -> None:
        why = Rejection(RejectionCode.SOURCE_GONE, f"Its {submission.source_kind} was deleted.")
        await self._end(submission.id, why, SYSTEM)

    async def _end(self, submission_id: str, why: Rejection, actor: dict[str, str]) -> None:
        async with self.db.transaction() as connection:
            submission = await repo.lock(connection, submission_id)
            if submission is None:
                raise UnknownSubmission
            if submission.state in OVER:
                return
            told = await self._change(connection, submission, why, actor)
            await reach("submissions.tell_end")
            await activity.append(connection, submission.organization, self.clock.now_ms(), *told)
        self.bus.announce("activity", submission.organization)

    async def _change(
        self, connection: Connection, submission: Submission, why: Rejection, actor: dict[str, str]
    ) -> Sequence[Line]:
        if submission.state is State.PUBLISHED:
            change = Change(State.WITHDRAWN, actor=actor, reason=why.message)
        else:
            change = Change(State.REJECTED, rejection=why, actor=actor)
        told = [await self.moves.make(connection, submission, change)]
        if submission.approval_id:
            told += await self.approvals.call_off(
                connection, submission.approval_id, actor, why.message
            )
        return told
