"""When a submission takes too long: what its submitter is told, and what is done about it. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from safelight.infra.injected import iso
from safelight.settings import Settings
from safelight.submissions.jobs import whole_seconds
from safelight.submissions.lifecycle import SubmissionState
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import HOUR_MS, Budget, Inflight, Progress

STAGES = {
    SubmissionState.RECEIVED: "waiting for its first check",
    SubmissionState.TIER1_SCANNING: "in the check of the file",
    SubmissionState.TIER2_SCANNING: "in the check of its content",
}
# What is waited for when a failure was nobody's fault here, by its class.
AWAITED = {
    FailureClass.SCAN_TIMEOUT: "a service that does not answer in time",
    FailureClass.MODEL_ERROR: "the model that looks at pictures, which is out of reach",
    FailureClass.STORAGE_ERROR: "storage or room on the server, which is away",
    FailureClass.NETWORK_ERROR: "a service that cannot be reached",
    FailureClass.UNKNOWN: "something that is out of reach",
}
# Beyond a day an outage is somebody's to end, and its submitter's to hear of.
PATIENCE_MS = 24 * HOUR_MS
_MINUTE_MS = 60_000
_MOST_MINUTES = 120  # from here on in hours


@dataclass(frozen=True, slots=True)
class Tempo:
    """How long things may take before somebody does something about it."""

    stale_after_ms: int
    stuck_after_ms: int
    interval_ms: int
    backoff_ms: tuple[int, ...]
    retries: int
    limit_seconds: float

    @classmethod
    def of(cls, settings: Settings) -> "Tempo":
        return cls(
            stale_after_ms=_ms(settings.stale_after_seconds),
            stuck_after_ms=_ms(settings.stuck_after_seconds),
            interval_ms=1000 * whole_seconds(settings.recovery_interval_seconds),
            backoff_ms=tuple(_ms(seconds) for seconds in settings.recovery_backoff_seconds),
            retries=settings.recovery_retries,
            limit_seconds=settings.scan_timeout_seconds,
        )


def next_tick(ms: int, every_ms: int) -> int:
    """The first moment from `ms` on at which a schedule of that cadence runs."""
    return -(-ms // every_ms) * every_ms


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


# What is done


class Why(StrEnum):
    """Why it is left alone."""

    MOVED_ON = "moved on"
    IN_LINE = "its job is queued, delayed or running"
    AT_WORK = "somebody began less than the threshold ago"
    TOO_SOON = "the next retry is not due yet"


@dataclass(frozen=True, slots=True)
class Leave:
    why: Why


@dataclass(frozen=True, slots=True)
class StartAgain:
    """`budget` as it is then; `incident`: what nobody has counted yet, if anything."""

    budget: Budget
    incident: FailureClass | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    incident: FailureClass | None


def decide(progress: Progress, now: int, tempo: Tempo) -> Leave | StartAgain | GiveUp:
    if why := _left_alone(progress, now, tempo):
        return Leave(why)
    budget, incident = progress.budget, _uncounted(progress.inflight)
    if awaited(progress, now):
        return StartAgain(budget.wait(now, tempo.backoff_ms), incident)
    if budget.count >= tempo.retries:
        return GiveUp(incident)
    return StartAgain(budget.spend(now, tempo.backoff_ms), incident)


def asked(progress: Progress, now: int, tempo: Tempo) -> Leave | StartAgain:
    """When a person asks for it: its pause is not waited for, and where the budget is spent, one
    more costs nothing. Whatever works on it, or waits to, is left alone all the same."""
    why = _left_alone(progress, now, tempo)
    if why is not None and why is not Why.TOO_SOON:
        return Leave(why)
    budget, incident = progress.budget, _uncounted(progress.inflight)
    if awaited(progress, now) or budget.count >= tempo.retries:
        return StartAgain(budget.wait(now, tempo.backoff_ms), incident)
    return StartAgain(budget.spend(now, tempo.backoff_ms), incident)


def _left_alone(progress: Progress, now: int, tempo: Tempo) -> Why | None:
    if not progress.state.under_way or _apart(now, progress.since) <= tempo.stuck_after_ms:
        return Why.MOVED_ON
    if progress.waiting:
        return Why.IN_LINE
    if _at_work(progress.inflight, now, tempo):
        return Why.AT_WORK
    due = progress.budget.next_retry_after or 0
    return Why.TOO_SOON if 0 < due - now <= max(tempo.backoff_ms) else None


def awaited(progress: Progress, now: int) -> FailureClass | None:
    """What was away when it last failed, as long as that is waited for. The record that says so
    lives for an hour; where a pause is longer, one that has waited goes on waiting."""
    if _apart(now, progress.since) > PATIENCE_MS:
        return None
    if progress.inflight is None:
        return FailureClass.UNKNOWN if progress.budget.waits else None
    error = progress.inflight.error
    return error.classification if error and error.away else None


def _at_work(inflight: Inflight | None, now: int, tempo: Tempo) -> bool:
    if inflight is None or not inflight.unfinished:
        return False
    return _apart(now, inflight.started_at) < tempo.stuck_after_ms


def _apart(now: int, then: int) -> int:
    """A time that is far ahead was a wrong clock's, and what it dates must not wait for it."""
    return abs(now - then)


def _uncounted(inflight: Inflight | None) -> FailureClass | None:
    """The consumer counts what it classifies; what ended without a word falls to recovery."""
    if inflight is None:
        return FailureClass.UNKNOWN
    return FailureClass.SCAN_TIMEOUT if inflight.unfinished else None


# What is told


@dataclass(frozen=True, slots=True)
class Staleness:
    since: int
    stage: SubmissionState
    next_attempt: int | None
    message: str

    def to_json(self) -> dict[str, Any]:
        due = self.next_attempt
        return {
            "stale": True,
            "staleSince": iso(self.since),
            "staleStage": self.stage,
            "nextAttemptAt": None if due is None else iso(due),
            "message": self.message,
        }


def staleness(progress: Progress, now: int, tempo: Tempo) -> Staleness | None:
    """None while all is well, and again as soon as the stage moves on."""
    if not progress.state.under_way or now - progress.since <= tempo.stale_after_ms:
        return None
    due = next_attempt(progress, now, tempo)
    return Staleness(progress.since, progress.state, due, _message(progress, now, due))


def next_attempt(progress: Progress, now: int, tempo: Tempo) -> int | None:
    """When recovery will start it again. None: it is in line already, or no retry is left."""
    spent = progress.budget.count >= tempo.retries and not awaited(progress, now)
    if progress.waiting or spent:
        return None
    earliest = max(
        now, progress.since + tempo.stuck_after_ms + 1, progress.budget.next_retry_after or 0
    )
    return next_tick(earliest, tempo.interval_ms)


def _message(progress: Progress, now: int, due: int | None) -> str:
    stage = STAGES.get(progress.state, "under way")
    what = f"This submission has been {stage} {_since(now - progress.since)}."
    away = awaited(progress, now)
    if due is not None and away:
        waits = f"It waits for {AWAITED[away]}; your image is not to blame."
        return f"{what} {waits} It will be tried again automatically at {_clock(due)}."
    if due is not None:
        return f"{what} It will be tried again automatically at {_clock(due)}."
    if progress.waiting:
        return f"{what} Work on it goes on; there is nothing you need to do."
    return f"{what} No automatic attempt is left, so it will be closed soon."


def _since(ms: int) -> str:
    minutes = ms // _MINUTE_MS
    if minutes >= _MOST_MINUTES:
        return f"for {minutes // 60} hours"
    return f"for {minutes} minutes" if minutes > 1 else "for longer than usual"


def _clock(ms: int) -> str:
    return f"{iso(ms)[11:16]} UTC"
