"""Who is at work on a submission, since when, and how it went: `inflight:{id}`, for one hour.

Owned by the consumer, written before any change of state, gone when the submission is done. It
informs people and recovery; what is true is in the submission's own row.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from safelight.infra.injected import iso
from safelight.submissions.failures import FailureClass
from safelight.submissions.lifecycle import State
from safelight.submissions.moments import to_ms

TTL_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Trouble:
    classification: FailureClass
    message: str
    at: int


@dataclass(frozen=True, slots=True)
class Inflight:
    submission_id: str
    attempt: int
    stage: State
    stage_started_at: int
    started_at: int
    error: Trouble | None = None

    @property
    def unfinished(self) -> bool:
        """Somebody began, and has not told how it went."""
        return self.error is None

    def entering(self, stage: State, now: int) -> "Inflight":
        return replace(self, stage=stage, stage_started_at=now)

    def failed(self, classification: FailureClass, message: str, now: int) -> "Inflight":
        return replace(self, error=Trouble(classification, message, now))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "submissionId": self.submission_id,
            "attempt": self.attempt,
            "stage": self.stage,
            "stageStartedAt": iso(self.stage_started_at),
            "startedAt": iso(self.started_at),
        }
        if self.error:
            value["error"] = {**asdict(self.error), "at": iso(self.error.at)}
        return value

    @classmethod
    def load(cls, value: dict[str, Any]) -> "Inflight":
        error = value.get("error")
        return cls(
            submission_id=value["submissionId"],
            attempt=value["attempt"],
            stage=State(value["stage"]),
            stage_started_at=to_ms(value["stageStartedAt"]),
            started_at=to_ms(value["startedAt"]),
            error=error
            and Trouble(
                FailureClass(error["classification"]), error["message"], to_ms(error["at"])
            ),
        )


def key(submission_id: str) -> str:
    return f"inflight:{submission_id}"
