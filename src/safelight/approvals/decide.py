"""What becomes of a decision. Pure: the first one counts, and time decides for those who wait."""

from dataclasses import dataclass

from safelight.approvals.lifecycle import ApprovalStatus

EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class DecideNow:
    """`expired`: by its time limit, whatever was wanted."""

    status: ApprovalStatus
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """It was decided the same way before, or is not due to expire; nothing changes."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It was decided the other way."""


def decide(
    status: ApprovalStatus, expires_at: int, wanted: ApprovalStatus, now: int
) -> DecideNow | Keep | Refuse:
    if status is wanted:
        return Keep()
    if status is not ApprovalStatus.PENDING:
        return Refuse()
    if now >= expires_at:
        return DecideNow(ApprovalStatus.REJECTED, expired=True)
    return DecideNow(wanted)


def decide_expiry(status: ApprovalStatus, expires_at: int, now: int) -> DecideNow | Keep:
    due = status is ApprovalStatus.PENDING and now >= expires_at
    return DecideNow(ApprovalStatus.REJECTED, expired=True) if due else Keep()
