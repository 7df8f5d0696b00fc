"""How a submission ends from outside: its submitter takes it back, its source is deleted, its
picture is ruled out, or a person has decided about it; and what becomes of its objects.

One that is published is withdrawn, one that is on its way is rejected; a question that waits for a
person is called off with it. One that is over stays as it is.
"""

from dataclasses import dataclass
from typing import assert_never

from safelight.approvals.decide import EXPIRED
from safelight.approvals.lifecycle import Approval, ApprovalStatus
from safelight.approvals.workflow import Approvals
from safelight.errors import NotFound
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.history import SYSTEM
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.library import repo as library
from safelight.objects import repo as objects
from safelight.objects.events import OURS, ObjectEvent
from safelight.objects.jobs import DeliverPayload
from safelight.objects.keys import split_key
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.submissions import repo
from safelight.submissions.findings import Ask, Fail, Finding, Pass, judge
from safelight.submissions.jobs import (
    SOURCE_GONE,
    RuledOutPayload,
    SourceDeletedPayload,
    SubmissionPayload,
)
from safelight.submissions.known_pictures import look_again
from safelight.submissions.lifecycle import (
    ENDED,
    Rejection,
    RejectionCode,
    Submission,
    SubmissionState,
    pinned_key,
    rendition_key,
)
from safelight.submissions.moves import SubmissionMove, move
from safelight.submissions.policies import repo as policies
from safelight.submissions.policies.policy import NEAR
from safelight.submissions.rules.registry import CODES


@dataclass(frozen=True, slots=True)
class Endings:
    units: Units
    approvals: Approvals

    async def withdraw(self, submission: Submission, actor: dict[str, str]) -> None:
        """Again does nothing."""
        why = Rejection(RejectionCode.POLICY, f"Withdrawn by {actor['name']}.")
        await self._end(submission.organization, submission.id, why, actor)

    async def source_deleted(self, submission: Submission) -> None:
        why = Rejection(RejectionCode.SOURCE_GONE, f"Its {submission.source_kind} was deleted.")
        await self._end(submission.organization, submission.id, why, SYSTEM)

    async def ruled_out(self, organization: str, submission_id: str) -> None:
        why = Rejection(RejectionCode.POLICY, "Your organization does not publish this picture.")
        await self._end(organization, submission_id, why, SYSTEM)

    async def _end(
        self, organization: str, submission_id: str, why: Rejection, actor: dict[str, str]
    ) -> None:
        async with self.units.open(organization) as unit:
            submission = await repo.lock(unit.connection, submission_id)
            if submission is None:
                raise NotFound
            if submission.state in ENDED:
                return
            await move(unit, submission, _ending(submission, why, actor))
            if submission.approval_id:
                await self.approvals.call_off(unit, submission.approval_id, actor, why.message)


def _ending(submission: Submission, why: Rejection, actor: dict[str, str]) -> SubmissionMove:
    if submission.state is SubmissionState.PUBLISHED:
        return SubmissionMove(SubmissionState.WITHDRAWN, actor=actor, reason=why.message)
    return SubmissionMove(SubmissionState.REJECTED, rejection=why, actor=actor)


@dataclass(frozen=True, slots=True)
class DeletedSources:
    """A source was deleted: what was submitted from it does not go on, or is not shown any more.

    Only if it was that very source. The name of an upload can be used again, so an upload is told
    by its marker: one that was replaced before the name was deleted outlives the delete. And only
    if it was deleted: unless the store itself is the source of events (`telling`), somebody else's
    word counts for nothing while the index holds the object, here as in the library.

    Gap: replacing and deleting are told by events, which may arrive in another order. A replacement
    among the last few thousand events is seen in any case.
    """

    db: Database
    endings: Endings
    telling: bool

    async def on_upload_deleted(self, event: ObjectEvent, _: Job[DeliverPayload]) -> Verdict:
        """A reaction to object events, to stand before the library's."""
        if await self._is_hearsay(event):
            return Done()
        organization, name = split_key(event.key)
        for submission in await repo.of_source(self.db, organization, "upload", name):
            await self._judge(submission, event)
        return Done()

    async def on_artifact_deleted(self, unit: Unit, artifact_id: str) -> None:
        """For the unit that deletes an artifact: what follows is a job of its own."""
        deleted = SourceDeletedPayload("artifact", artifact_id)
        key = f"{unit.organization}/{deleted.kind}/{artifact_id}"
        await unit.enqueue(SOURCE_GONE, deleted, key=key)

    async def handle(self, job: Job[SourceDeletedPayload]) -> Verdict:
        kind, source_id = job.payload.kind, job.payload.sourceId
        for submission in await repo.of_source(self.db, job.organization, kind, source_id):
            await self.endings.source_deleted(submission)
        return Done()

    async def _is_hearsay(self, event: ObjectEvent) -> bool:
        if self.telling or event.source == OURS:
            return False
        return await objects.find(self.db, event.key) is not None

    async def _judge(self, submission: Submission, event: ObjectEvent) -> None:
        if not submission.source_current or submission.source_time >= event.event_time:
            return
        if await self._was_replaced(submission, event):
            await repo.outlive(self.db, submission.id)
        else:
            await self.endings.source_deleted(submission)

    async def _was_replaced(self, submission: Submission, deleted: ObjectEvent) -> bool:
        """Whether another upload had taken the name before it was deleted: by the library, or by an
        event of late that it may not have heard of."""
        organization, name = submission.organization, submission.source_id
        marker, since = submission.source_marker, submission.source_time
        return await library.has_other(
            self.db, organization, name, marker, since, deleted.event_time
        ) or await objects.created_other(self.db, deleted, marker, since)


@dataclass(frozen=True, slots=True)
class TakeDown:
    """A picture was ruled out: what shows it, or looks like it, is shown no more. What is on its
    way finds the entry by itself."""

    db: Database
    endings: Endings

    async def handle(self, job: Job[RuledOutPayload]) -> Verdict:
        entry = await policies.entry(self.db, job.payload.entryId)
        if entry is not None:
            for submission_id in await policies.shown_of(self.db, entry, NEAR):
                await self.endings.ruled_out(entry.organization, submission_id)
        return Done()


@dataclass(frozen=True, slots=True)
class SubmissionConcern:
    """What a person's decision about a submission means. Part of the deciding unit of work."""

    async def lock(self, unit: Unit, subject_id: str) -> None:
        await repo.lock(unit.connection, subject_id)

    async def on_decided(self, unit: Unit, approval: Approval, actor: dict[str, str]) -> None:
        """Approved, the stored rendition is public from the commit on, unless the picture was ruled
        out since the question was put."""
        subject = approval.subject
        submission = await repo.lock(unit.connection, subject.id) if subject else None
        if submission is None or submission.state is not SubmissionState.AWAITING_APPROVAL:
            return
        if approval.status is ApprovalStatus.APPROVED:
            change = await _approved(unit, submission, approval, actor)
        else:
            why = _rejection(approval)
            change = SubmissionMove(SubmissionState.REJECTED, rejection=why, actor=actor)
        await move(unit, submission, change)


async def _approved(
    unit: Unit, submission: Submission, approval: Approval, actor: dict[str, str]
) -> SubmissionMove:
    """What else may have been found meanwhile, another copy for one, was theirs to decide."""
    before = map(Finding.load, submission.findings)
    found = await look_again(unit.connection, submission, before)
    columns = {"findings": [finding.to_json() for finding in found]}
    verdict = judge(found, CODES)
    match verdict:
        case Fail(why):
            return SubmissionMove(SubmissionState.REJECTED, rejection=why, columns=columns)
        case Pass() | Ask():
            return SubmissionMove(
                SubmissionState.PUBLISHED, actor=actor, reason=approval.reason, columns=columns
            )
        case _:
            assert_never(verdict)


def _rejection(approval: Approval) -> Rejection:
    if approval.decided_by is None and approval.reason == EXPIRED:
        message = "Nobody decided in time whether to publish this. You can submit it again."
        return Rejection(RejectionCode.APPROVAL_EXPIRED, message)
    message = f"{approval.decided_by or 'Safelight'} decided not to publish this"
    message += f": {approval.reason}" if approval.reason else "."
    return Rejection(RejectionCode.APPROVAL_REJECTED, message)


@dataclass(frozen=True, slots=True)
class Release:
    """When a submission is over, what was pinned goes, and a rendition that nobody may see."""

    db: Database
    store: ObjectStore

    async def handle(self, job: Job[SubmissionPayload]) -> Verdict:
        submission = await repo.find(self.db, job.payload.submissionId)
        if submission is None or not submission.state.over:
            return Done()
        await self._drop(pinned_key(submission.id))
        if submission.state is not SubmissionState.PUBLISHED:
            await self._drop(rendition_key(submission.id))
        return Done()

    async def _drop(self, key: str) -> None:
        try:
            await self.store.head(key)
        except NoSuchObject:
            return
        await reach("submissions.drop_object")
        await self.store.delete(key)
