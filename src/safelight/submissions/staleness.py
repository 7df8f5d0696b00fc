"""Is this submission taking too long, and what does its submitter need to know? Pure."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.injected import iso
from safelight.submissions.budget import Budget
from safelight.submissions.lifecycle import UNDER_WAY, State
from safelight.submissions.moments import next_tick
from safelight.submissions.tempo import Tempo

STAGES = {
    State.RECEIVED: "waiting for its first check",
    State.TIER1_SCANNING: "in the check of the file",
    State.TIER2_SCANNING: "in the check of its content",
}
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Progress:
    """`waiting`: the queue has its job, so it goes on by itself."""

    state: State
    since: int
    waiting: bool
    budget: Budget


def staleness(progress: Progress, now: int, tempo: Tempo) -> dict[str, Any] | None:
    """None while all is well, and again as soon as the stage moves on."""
    if progress.state not in UNDER_WAY or now - progress.since <= tempo.stale_after_ms:
        return None
    due = next_attempt(progress, now, tempo)
    return {
        "stale": True,
        "staleSince": iso(progress.since),
        "staleStage": progress.state,
        "nextAttemptAt": None if due is None else iso(due),
        "message": _message(progress, now, due),
    }


def next_attempt(progress: Progress, now: int, tempo: Tempo) -> int | None:
    """When recovery will start it again. None: it is in line already, or no retry is left."""
    if progress.waiting or progress.budget.count >= tempo.retries:
        return None
    earliest = max(
        now, progress.since + tempo.stuck_after_ms + 1, progress.budget.next_retry_after or 0
    )
    return next_tick(earliest, tempo.interval_ms)


def _message(progress: Progress, now: int, due: int | None) -> str:
    minutes = (now - progress.since) // _MINUTE_MS
    since = f"for {minutes} minutes" if minutes > 1 else "for longer than usual"
    what = f"This submission has been {STAGES[progress.state]} {since}."
    if due is not None:
        return f"{what} It will be tried again automatically at {_clock(due)}."
    if progress.waiting:
        return f"{what} Work on it goes on; there is nothing you need to do."
    return f"{what} No automatic attempt is left, so it will be closed soon."


def _clock(ms: int) -> str:
    return f"{iso(ms)[11:16]} UTC"
