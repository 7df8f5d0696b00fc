"""What a person's decision about a submission means. Part of the deciding transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from safelight.approvals.decide import EXPIRED
from safelight.approvals.lifecycle import Status
from safelight.approvals.repo import Approval
from safelight.infra.db import Connection
from safelight.infra.history import Line
from safelight.submissions import repo
from safelight.submissions.findings import Rejection
from safelight.submissions.lifecycle import RejectionCode, State
from safelight.submissions.moves import Change, Moves


@dataclass(frozen=True, slots=True)
class SubmissionDecided:
    moves: Moves

    async def lock(self, connection: Connection, subject_id: str) -> None:
        await repo.lock(connection, subject_id)

    async def decided(
        self, connection: Connection, approval: Approval, actor: dict[str, str]
    ) -> Sequence[Line]:
        """Approved, the stored rendition is public from the commit on."""
        subject = approval.subject
        submission = await repo.lock(connection, subject.id) if subject else None
        if submission is None or submission.state is not State.AWAITING_APPROVAL:
            return ()
        if approval.status is Status.APPROVED:
            change = Change(State.PUBLISHED, actor=actor, reason=approval.reason)
        else:
            change = Change(State.REJECTED, rejection=_rejection(approval), actor=actor)
        return (await self.moves.make(connection, submission, change),)


def _rejection(approval: Approval) -> Rejection:
    if approval.decided_by is None and approval.reason == EXPIRED:
        message = "Nobody decided in time whether to publish this. You can submit it again."
        return Rejection(RejectionCode.APPROVAL_EXPIRED, message)
    message = f"{approval.decided_by or 'Safelight'} decided not to publish this"
    message += f": {approval.reason}" if approval.reason else "."
    return Rejection(RejectionCode.APPROVAL_REJECTED, message)
