"""What becomes of a job when its handler has ended: pure decisions about verdicts and errors."""

import asyncio
from typing import Any

from safelight.infra.away import is_away
from safelight.infra.queue.jobs import (
    DAY,
    Dead,
    Done,
    Failure,
    Job,
    JobOutcome,
    LeaseLost,
    Lost,
    PutBack,
    Retry,
    Verdict,
)

_LONGEST_WAIT = 365.0 * DAY
_PAUSE_AFTER_STRAY_CANCEL = 1.0


def outcome(job: Job[Any], verdict: object) -> JobOutcome:
    """A retry beyond the budget is a death. While the surroundings are away only patience ends."""
    if isinstance(verdict, Done | Dead):
        return verdict
    if not isinstance(verdict, Retry):
        verdict = Retry(TypeError(f"The handler returned {verdict!r} instead of a verdict."))
    away = verdict.away or (isinstance(verdict.error, BaseException) and is_away(verdict.error))
    wait, backoff = verdict.after, job.kind.retry
    if not backoff.patient(job.waits) if away else job.last_attempt:
        return Dead(verdict.error)
    if wait is None and away:
        wait = backoff.wait_for_others(job.waits, _jitter(job.id, job.waits))
    elif wait is None:
        wait = backoff.wait(job.attempt, _jitter(job.id, job.attempt))
    wait = min(wait, _LONGEST_WAIT) if wait > 0 else 0.0
    return PutBack(wait, Failure.of(verdict.error), away)


def outcome_of(job: Job[Any], ran: "asyncio.Task[Verdict]", *, stopping: bool) -> JobOutcome:
    """A cancelled job goes back unharmed, at once when the worker stops; otherwise after a pause,
    so that a handler which cancels itself does not spin."""
    if ran.cancelled():
        return PutBack(0.0 if stopping else _PAUSE_AFTER_STRAY_CANCEL, None)
    error = ran.exception()
    if error is None:
        return outcome(job, ran.result())
    return Lost() if isinstance(error, LeaseLost) else outcome(job, Retry(error))


def _jitter(job_id: int, attempt: int) -> float:
    """Spread evenly over 0…1 by job and attempt; needs no randomness (Knuth's multiplier)."""
    return ((job_id * 31 + attempt) * 2_654_435_761 % 2**32) / 2**32
