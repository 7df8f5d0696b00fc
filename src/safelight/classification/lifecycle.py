"""What a run is for and what it found. Its states are the library's (library/entry.py). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from itertools import product
from typing import Any

from safelight.classification.base import Drawing
from safelight.infra.history import Line
from safelight.infra.queue.jobs import Job
from safelight.library import entry

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


class DrawnParts(IntFlag):
    """What was made of an image besides its label, as `uploads.drawn` has it."""

    NOTHING = 0
    COLOR = 1  # and the checksum
    THUMBNAIL = entry.THUMBNAIL
    EMBEDDING = 4
    NO_MORE = 8  # the rest cannot be made

    @classmethod
    def of(cls, drawing: Drawing) -> "DrawnParts":
        return _DRAWN[bool(drawing.color), bool(drawing.thumbnail), bool(drawing.embedding)]

    @property
    def lacking(self) -> list[int]:
        """Every value that lacks a part of this one; what lacks most comes first."""
        everything = DrawnParts.COLOR | DrawnParts.THUMBNAIL | DrawnParts.EMBEDDING
        return [value for value in range(everything) if value & self != self]


# Every image asks, and flags are slow to add up.
_DRAWN = {
    (color, thumbnail, embedding): DrawnParts(
        color * DrawnParts.COLOR
        | thumbnail * DrawnParts.THUMBNAIL
        | embedding * DrawnParts.EMBEDDING
    )
    for color, thumbnail, embedding in product((False, True), repeat=3)
}


@dataclass(frozen=True, slots=True)
class Result:
    """`labels` are the best ones with their scores, best first."""

    label: str
    score: float
    model: str
    at: int
    labels: tuple[tuple[str, float], ...] = ()
    drawing: Drawing = field(default_factory=Drawing)


@dataclass(frozen=True, slots=True)
class ReadyResult:
    """A result on its way to its entry: the job that ends with it, and what history tells where it
    was taken, or where the entry has moved on."""

    target: RunTarget
    result: Result
    job: Job[Any]
    told: Sequence[Line]
    dropped: Sequence[Line]
