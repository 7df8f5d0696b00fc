"""What recovery and people know of a submission on its way, in values that expire. Pure.

- `inflight:{id}`, for an hour: who is at work, since when, and how it went. Owned by the consumer,
  written before any change of state, gone when the submission is done. It informs; what is true is
  in the submission's own row.
- `recovery:budget:{id}`, for 24 hours from the last time: how often recovery has started it again,
  `count` times after failures and `waits` times because something was away.
  A marker of the older kind (`recovery:retried:{id}`) counts as one.
- `tm:{hour}:{class}`, for 48 hours: how often, and for how long, processing failed.

Times in them are written as people read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from safelight.infra.injected import iso
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.submissions.recovery.failures import FailureClass

HOUR_MS = 3_600_000
INFLIGHT, INFLIGHT_MS = "inflight:", HOUR_MS
BUDGET, BUDGET_MS = "recovery:budget:", 24 * HOUR_MS
OLD_BUDGET = "recovery:retried:"
INCIDENTS, INCIDENTS_MS = "tm:", 48 * HOUR_MS
NO_WORD = "Its worker stopped without a word."


def to_ms(text: str) -> int:
    """The way back from `iso`."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def hour_of(ms: int) -> int:
    """The beginning of the hour a moment lies in."""
    return ms - ms % HOUR_MS


def incidents_key(hour: int, classification: FailureClass) -> str:
    return f"{INCIDENTS}{iso(hour)[:13]}:{classification}"


@dataclass(frozen=True, slots=True)
class RunFailure:
    """`away`: the surroundings were to blame, so it costs the image nothing."""

    classification: FailureClass
    message: str
    at: int
    away: bool = False

    def to_json(self) -> dict[str, Any]:
        value = {
            "classification": self.classification,
            "message": self.message,
            "at": iso(self.at),
        }
        return value | ({"away": True} if self.away else {})

    @classmethod
    def load(cls, value: dict[str, Any]) -> "RunFailure":
        kind, at = FailureClass(value["classification"]), to_ms(value["at"])
        return cls(kind, value["message"], at, value.get("away", False))


@dataclass(frozen=True, slots=True)
class Inflight:
    submission_id: str
    attempt: int
    stage: SubmissionState
    stage_started_at: int
    started_at: int
    error: RunFailure | None = None

    @property
    def unfinished(self) -> bool:
        """Somebody began, and has not told how it went."""
        return self.error is None

    def entering(self, stage: SubmissionState, now: int) -> "Inflight":
        return replace(self, stage=stage, stage_started_at=now)

    def failed(
        self, classification: FailureClass, message: str, now: int, *, away: bool = False
    ) -> "Inflight":
        return replace(self, error=RunFailure(classification, message, now, away))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "submissionId": self.submission_id,
            "attempt": self.attempt,
            "stage": self.stage,
            "stageStartedAt": iso(self.stage_started_at),
            "startedAt": iso(self.started_at),
        }
        if self.error:
            value["error"] = self.error.to_json()
        return value

    @classmethod
    def load(cls, value: dict[str, Any]) -> "Inflight":
        error = value.get("error")
        return cls(
            submission_id=value["submissionId"],
            attempt=value["attempt"],
            stage=SubmissionState(value["stage"]),
            stage_started_at=to_ms(value["stageStartedAt"]),
            started_at=to_ms(value["startedAt"]),
            error=error and RunFailure.load(error),
        )


@dataclass(frozen=True, slots=True)
class Budget:
    count: int = 0
    last_retry_at: int | None = None
    next_retry_after: int | None = None
    waits: int = 0

    @property
    def starts(self) -> int:
        """How often it was started again, for whatever reason."""
        return self.count + self.waits

    def spend(self, now: int, backoff_ms: Sequence[int]) -> "Budget":
        return Budget(self.count + 1, now, now + _pause(self.count, backoff_ms), self.waits)

    def wait(self, now: int, backoff_ms: Sequence[int]) -> "Budget":
        """The same pauses, for nothing."""
        return Budget(self.count, now, now + _pause(self.waits, backoff_ms), self.waits + 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "waits": self.waits,
            "lastRetryAt": None if self.last_retry_at is None else iso(self.last_retry_at),
            "nextRetryAfter": None if self.next_retry_after is None else iso(self.next_retry_after),
        }

    @classmethod
    def load(cls, value: dict[str, Any] | None, older: object | None = None) -> "Budget":
        """The budget comes first; the older marker speaks only where there is none. An earlier
        version counted no waits."""
        if value is None:
            return cls(1) if older is not None else cls()
        last, following = value.get("lastRetryAt"), value.get("nextRetryAfter")
        return cls(
            value["count"],
            to_ms(last) if last else None,
            to_ms(following) if following else None,
            value.get("waits", 0),
        )


def _pause(before: int, backoff_ms: Sequence[int]) -> int:
    """The last one serves for everything beyond the list."""
    return backoff_ms[min(before, len(backoff_ms) - 1)]


@dataclass(frozen=True, slots=True)
class Progress:
    """What is decided from. `waiting`: the queue has its job, so it goes on by itself. `since` and
    `waiting` decide; the inflight record only informs."""

    state: SubmissionState
    since: int
    waiting: bool
    budget: Budget
    inflight: Inflight | None = None


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """A submission, and the values beside it as they were read."""

    submission: Submission
    waiting: bool
    budget: dict[str, Any] | None
    older: Any | None
    inflight: dict[str, Any] | None

    @property
    def progress(self) -> Progress:
        submission = self.submission
        return Progress(
            submission.state,
            submission.updated_at,
            self.waiting,
            Budget.load(self.budget, self.older),
            None if self.inflight is None else Inflight.load(self.inflight),
        )
