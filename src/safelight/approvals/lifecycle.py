"""The states of an approval, the only moves between them, and the approval itself. Pure."""

from dataclasses import dataclass
from typing import Final

from safelight.infra.states import Machine, Phase, State

# What the world is told, and the fields of each message.
MESSAGES = {
    "approval_requested": ("id", "title", "status"),
    "approval_approved": ("id", "title", "status", "decidedBy", "reason"),
    "approval_rejected": ("id", "title", "status", "decidedBy", "reason"),
}


class ApprovalStatus(State):
    PENDING = "pending", "Waiting", "person", "accent", Phase.WAITING
    APPROVED = "approved", "Approved", "check", "good", Phase.OVER
    REJECTED = "rejected", "Rejected", "cross", "problem", Phase.OVER  # or its time ran out


MACHINE: Final = Machine(
    "An approval",
    {
        ApprovalStatus.PENDING: (ApprovalStatus.APPROVED, ApprovalStatus.REJECTED),
        ApprovalStatus.APPROVED: (),
        ApprovalStatus.REJECTED: (),
    },
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What an approval is about."""

    type: str
    id: str

    def __str__(self) -> str:
        return f"{self.type}:{self.id}"


@dataclass(frozen=True, slots=True)
class Approval:
    id: str
    organization: str
    status: ApprovalStatus
    title: str
    description: str
    subject: Subject | None
    requested_by: str
    created_at: int
    expires_at: int
    decided_by: str | None = None
    decided_at: int | None = None
    reason: str | None = None
