"""What to do about a submission that does not get on. Pure: facts in, one decision out."""

from dataclasses import dataclass
from enum import StrEnum

from safelight.submissions.budget import Budget
from safelight.submissions.failures import FailureClass
from safelight.submissions.inflight import Inflight
from safelight.submissions.lifecycle import UNDER_WAY, State
from safelight.submissions.tempo import Tempo


class Why(StrEnum):
    """Why it is left alone."""

    MOVED_ON = "moved on"
    IN_LINE = "its job is queued, delayed or running"
    AT_WORK = "somebody began less than the threshold ago"
    TOO_SOON = "the next retry is not due yet"


@dataclass(frozen=True, slots=True)
class Facts:
    """`updated_at` and `waiting` decide; the inflight record only informs."""

    state: State
    updated_at: int
    waiting: bool
    inflight: Inflight | None
    budget: Budget


@dataclass(frozen=True, slots=True)
class Leave:
    why: Why


@dataclass(frozen=True, slots=True)
class Again:
    """Start it again. `incident`: what nobody has counted yet, if anything."""

    budget: Budget
    incident: FailureClass | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    incident: FailureClass | None


def decide(facts: Facts, now: int, tempo: Tempo) -> Leave | Again | GiveUp:
    if facts.state not in UNDER_WAY or now - facts.updated_at <= tempo.stuck_after_ms:
        return Leave(Why.MOVED_ON)
    if facts.waiting:
        return Leave(Why.IN_LINE)
    if _at_work(facts.inflight, now, tempo):
        return Leave(Why.AT_WORK)
    if now < (facts.budget.next_retry_after or 0):
        return Leave(Why.TOO_SOON)
    if facts.budget.count >= tempo.retries:
        return GiveUp(_uncounted(facts.inflight))
    return Again(facts.budget.spend(now, tempo.backoff_ms), _uncounted(facts.inflight))


def _at_work(inflight: Inflight | None, now: int, tempo: Tempo) -> bool:
    if inflight is None or not inflight.unfinished:
        return False
    return now - inflight.started_at < tempo.stuck_after_ms


def _uncounted(inflight: Inflight | None) -> FailureClass | None:
    """The consumer counts what it classifies; what ended without a word falls to recovery."""
    if inflight is None:
        return FailureClass.UNKNOWN
    return FailureClass.SCAN_TIMEOUT if inflight.unfinished else None
