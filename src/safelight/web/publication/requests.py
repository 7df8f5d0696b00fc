"""Requests for approval as whoever decides sees them: the picture, what was found, and its twin."""

from collections.abc import Sequence
from dataclasses import dataclass

from safelight.approvals.lifecycle import Approval
from safelight.infra.db import Database
from safelight.settings import Settings
from safelight.submissions import repo
from safelight.submissions.lifecycle import SUBJECT, Submission
from safelight.submissions.policies import repo as policies
from safelight.submissions.policies.policy import Policy, combined
from safelight.web.publication.findings import shown_findings
from safelight.web.publication.found import FindingGroup, KnownTwin, grouped, twin_of
from safelight.web.publication.pictures import NO_PICTURE, PinnedPicture, pinned_pictures
from safelight.web.story.words import percent


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """Without a submission somebody asked over the API; there is no picture then."""

    approval: Approval
    submission: Submission | None = None
    picture: PinnedPicture = NO_PICTURE
    groups: Sequence[FindingGroup] = ()
    twin: KnownTwin | None = None

    @property
    def title(self) -> str:
        """Of the picture, where the question is only whether to publish it."""
        one = self.submission
        return self.approval.title if one is None else one.title or one.source_id


@dataclass(frozen=True, slots=True)
class ShownThresholds:
    """Between which scores of the safety model a person is asked."""

    review: str
    block: str

    @classmethod
    def of(cls, policy: Policy) -> "ShownThresholds":
        return cls(percent(policy.safety_review), percent(policy.safety_block))


async def shown_requests(
    db: Database,
    organization: str,
    approvals: Sequence[Approval],
    *,
    originals: bool,
    may_decide: bool,
) -> list[ShownRequest]:
    """In the same order."""
    ids = {one.subject.id for one in approvals if one.subject and one.subject.type == SUBJECT}
    known = await repo.of_ids(db, organization, ids)
    found = await shown_findings(db, organization, known.values())
    pictures = await pinned_pictures(
        db, organization, known.values(), originals=originals, may_decide=may_decide
    )
    shown = []
    for approval in approvals:
        submission = known.get(approval.subject.id) if approval.subject else None
        if submission is None:
            shown.append(ShownRequest(approval))
            continue
        one = found[submission.id]
        picture = pictures[submission.id]
        shown.append(ShownRequest(approval, submission, picture, grouped(one), twin_of(one)))
    return shown


async def thresholds(db: Database, organization: str, settings: Settings) -> ShownThresholds:
    own = await policies.policy_overrides(db, organization)
    return ShownThresholds.of(combined(settings, own))
