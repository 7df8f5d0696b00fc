"""What becomes of a decision. Pure: the first one counts, and time decides for those who wait."""

from dataclasses import dataclass

from safelight.approvals.lifecycle import Status

EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Settle:
    """It is decided now. `expired`: by its time limit, whatever was wanted."""

    status: Status
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """It was decided the same way before; nothing changes."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It was decided the other way, or is not due to expire."""


def decide(status: Status, expires_at: int, wanted: Status, now: int) -> Settle | Keep | Refuse:
    if status is wanted:
        return Keep()
    if status is not Status.PENDING:
        return Refuse()
    if now >= expires_at:
        return Settle(Status.REJECTED, expired=True)
    return Settle(wanted)


def decide_expiry(status: Status, expires_at: int, now: int) -> Settle | Keep:
    due = status is Status.PENDING and now >= expires_at
    return Settle(Status.REJECTED, expired=True) if due else Keep()
