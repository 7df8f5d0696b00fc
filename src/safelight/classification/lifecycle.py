"""What a run is for and what it found. Its states are the library's (library/entry.py). Pure."""

from dataclasses import dataclass
from enum import StrEnum

# What the world is told, and the fields of each message.
MESSAGES = {
    "classification_updated": (
        "name",
        "idempotencyKey",
        "classificationLabel",
        "classificationScore",
        "classifiedAt",
        "classificationModel",
    ),
    "classification_error": ("name", "idempotencyKey", "error", "final"),
}


class AttemptEnd(StrEnum):
    """How an attempt at a run ended, for the count of them."""

    DONE = "done"
    FAILED = "failed"  # by the image's own fault
    DROPPED = "dropped"  # its entry has moved on
    AWAY = "away"  # store or model are, and it waits for them
    RETRIED = "retried"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class RunTarget:
    """Which upload, and which of its runs, a result is for."""

    organization: str
    name: str
    idempotency_key: str
    run: int


@dataclass(frozen=True, slots=True)
class Result:
    """`labels` are the best ones with their scores, best first."""

    label: str
    score: float
    model: str
    at: int
    labels: tuple[tuple[str, float], ...] = ()
