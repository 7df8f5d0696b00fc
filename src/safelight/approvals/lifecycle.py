"""The states of an approval and the only moves between them."""

from enum import StrEnum

from safelight.errors import SafelightError

# What the world is told, and the fields of each message.
MESSAGES = {
    "approval_requested": ("id", "title", "status"),
    "approval_approved": ("id", "title", "status", "decidedBy", "reason"),
    "approval_rejected": ("id", "title", "status", "decidedBy", "reason"),
}


class Status(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"  # by a person, or because its time ran out


TRANSITIONS: dict[Status, tuple[Status, ...]] = {
    Status.PENDING: (Status.APPROVED, Status.REJECTED),
    Status.APPROVED: (),
    Status.REJECTED: (),
}


class IllegalTransition(SafelightError):
    """An approval cannot make that move."""

    code = "ILLEGAL_TRANSITION"


def check(before: Status, after: Status) -> None:
    allowed = TRANSITIONS[before]
    if after not in allowed:
        names = ", ".join(allowed) or "none: it is final"
        raise IllegalTransition(f"An approval cannot go {before} → {after}. Allowed: {names}.")
