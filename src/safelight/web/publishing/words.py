"""How states, findings and lengths of time are said on pages. Pure."""

from dataclasses import dataclass

from safelight.submissions.findings import Severity
from safelight.submissions.lifecycle import State

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Look:
    """A state is told by its icon and its word; the tone only underlines it."""

    word: str
    icon: str
    tone: str


STATES: dict[State, Look] = {
    State.RECEIVED: Look("Received", "inbox", "plain"),
    State.TIER1_SCANNING: Look("Checking the file", "loop", "accent"),
    State.TIER2_SCANNING: Look("Checking the content", "loop", "accent"),
    State.AWAITING_APPROVAL: Look("Awaiting approval", "person", "accent"),
    State.PUBLISHED: Look("Published", "check", "good"),
    State.REJECTED: Look("Rejected", "cross", "problem"),
    State.WITHDRAWN: Look("Withdrawn", "back", "plain"),
}
SEVERITIES: dict[Severity, Look] = {
    Severity.BLOCK: Look("Stops publication", "cross", "problem"),
    Severity.REVIEW: Look("A person has to look", "person", "accent"),
    Severity.INFO: Look("Good to know", "info", "plain"),
}
RANK = list(Severity)


def duration(seconds: float) -> str:
    """In its two largest units at most, as a glance takes it in."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    if whole < _DAY:
        return _two(whole, _HOUR, "h", _MINUTE, "min")
    return _two(whole, _DAY, "d", _HOUR, "h")


def _two(whole: int, large: int, name: str, small: int, rest: str) -> str:
    left = whole % large // small
    return f"{whole // large} {name}" + (f" {left} {rest}" if left else "")
