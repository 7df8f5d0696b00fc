"""What the library decides upon: the row, the tombstone, the event, the store, the run."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from safelight.objects.events import ObjectEvent

# What the world is told, and the fields of each message.
MESSAGES = {
    "classification_workflow_started": ("name", "idempotencyKey", "run"),
    "classification_workflow_skipped": ("name", "eventTime", "reason"),
    "upload_deleted": ("name", "eventTime"),
    "upload_delete_error": ("name", "error"),
}


class RunState(StrEnum):
    """Of the newest run for a marker; `classificationStatus` has the same words."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Stamp:
    """When something happened to one key: epoch milliseconds, and the source's own number."""

    event_time: int
    sequencer: str | None
    source: str

    @classmethod
    def of(cls, event: ObjectEvent) -> Self:
        return cls(event.event_time, event.sequencer, event.source)


@dataclass(frozen=True, slots=True)
class Entry:
    """The row of a name: its marker (`idempotency_key`) and the event that last confirmed it."""

    stamp: Stamp
    idempotency_key: str
    etag: str | None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The newest delete of a name. It may stay while the name has a row again."""

    stamp: Stamp


@dataclass(frozen=True, slots=True)
class CreateFacts:
    """What a create event knows of the object it tells of; often little."""

    stamp: Stamp
    etag: str | None = None
    idempotency_key: str | None = None

    @classmethod
    def of(cls, event: ObjectEvent) -> Self:
        key = (event.metadata or {}).get("idempotencyKey")
        return cls(Stamp.of(event), event.etag or None, key or None)


@dataclass(frozen=True, slots=True)
class StoreNow:
    """The object that the store holds at this moment; no marker when its metadata lacks one."""

    etag: str
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class BeatenBy:
    """What was stronger than a dropped event: a row, a tombstone (no key), an object (no time)."""

    event_time: int | None
    idempotency_key: str | None
