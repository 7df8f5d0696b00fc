"""The states of a submission, the only moves between them, and the submission itself. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from safelight.infra.states import Machine, Phase, State
from safelight.submissions.policies.policy import Looks

SUBJECT: Final = "submission"  # the type of what an approval can be about

# What the world is told, and the fields of each message.
MESSAGES = {
    "submission_state_changed": ("id", "from", "to"),
}


class SubmissionState(State):
    RECEIVED = "RECEIVED", "Received", "inbox"  # pinned, and waiting for its turn
    TIER1_SCANNING = "TIER1_SCANNING", "Checking the file", "loop", "plain"
    TIER2_SCANNING = "TIER2_SCANNING", "Checking the content", "loop", "plain"  # by models
    AWAITING_APPROVAL = (
        "AWAITING_APPROVAL",
        "Awaiting approval",
        "person",
        "accent",
        Phase.WAITING,
    )
    PUBLISHED = "PUBLISHED", "Published", "check", "good", Phase.OVER  # everybody can see it
    REJECTED = "REJECTED", "Rejected", "cross", "problem", Phase.OVER  # nobody ever will
    WITHDRAWN = "WITHDRAWN", "Withdrawn", "back", "plain", Phase.OVER  # nobody can any more


MACHINE: Final = Machine(
    "A submission",
    {
        SubmissionState.RECEIVED: (SubmissionState.TIER1_SCANNING, SubmissionState.REJECTED),
        SubmissionState.TIER1_SCANNING: (SubmissionState.TIER2_SCANNING, SubmissionState.REJECTED),
        SubmissionState.TIER2_SCANNING: (
            SubmissionState.AWAITING_APPROVAL,
            SubmissionState.PUBLISHED,
            SubmissionState.REJECTED,
        ),
        SubmissionState.AWAITING_APPROVAL: (SubmissionState.PUBLISHED, SubmissionState.REJECTED),
        SubmissionState.PUBLISHED: (SubmissionState.WITHDRAWN,),
        SubmissionState.REJECTED: (),
        SubmissionState.WITHDRAWN: (),
    },
)

# What cannot be ended any more: no move leads out of it.
ENDED: Final = tuple(state for state, moves in MACHINE.moves.items() if not moves)


class RejectionCode(StrEnum):
    STUCK_EXHAUSTED = "STUCK_EXHAUSTED"
    POLICY = "POLICY"
    MALFORMED = "MALFORMED"
    APPROVAL_REJECTED = "APPROVAL_REJECTED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    SOURCE_GONE = "SOURCE_GONE"


@dataclass(frozen=True, slots=True)
class Rejection:
    code: RejectionCode
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Submission:
    """`source_*` say which upload or artifact was submitted, as it was then; `run` is the fence: it
    rises with every start, and only the latest may write."""

    id: str
    organization: str
    title: str | None
    submitted_by: dict[str, str]
    source_kind: str
    source_id: str
    source_marker: str
    source_time: int
    source_current: bool
    checksum: str
    content_type: str
    size_bytes: int
    state: SubmissionState
    created_at: int
    updated_at: int
    run: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    rejection: dict[str, str] | None = None
    approval_id: str | None = None
    dhash: int | None = None
    phash: int | None = None
    dark_dhash: int | None = None
    dark_phash: int | None = None
    rendition_type: str | None = None
    rendition_size: int | None = None
    rendition_etag: str | None = None

    @property
    def subject(self) -> str:
        return f"submission:{self.id}"

    @property
    def looks(self) -> Looks:
        return Looks.kept(self.dhash, self.phash, self.dark_dhash, self.dark_phash)

    @property
    def source_subject(self) -> str:
        return f"{self.source_kind}:{self.source_id}"


def pinned_key(submission_id: str) -> str:
    """The object that keeps what was submitted."""
    return f"submissions/{submission_id}"


def rendition_key(submission_id: str) -> str:
    """The object that is published."""
    return f"renditions/{submission_id}"
