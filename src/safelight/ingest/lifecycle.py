"""An image: its states and the only moves between them (docs/states.md is drawn from this), its
record, and how its journey to the store can end. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from safelight.infra.history import Line
from safelight.infra.injected import ImageId
from safelight.infra.states import Machine, Phase, State

# What the world is told, and the fields of each message.
MESSAGES = {
    "upload_ingested": ("imageId", "name", "checksum", "sizeBytes"),
    "upload_stored": ("imageId", "name", "eventTime"),
    "upload_failed": ("imageId", "name", "error"),
}


class ImageStatus(State):
    # All bytes have arrived.
    UPLOADED = ("UPLOADED", "Received", "inbox")
    # The temporary file is safe and its metadata recorded.
    INGESTED = ("INGESTED", "Received", "inbox")
    # The original is in the object store.
    STORED = ("STORED", "Stored", "archive", "plain", Phase.OVER)
    # It could not be ingested or stored; the history says why.
    FAILED = ("FAILED", "Not stored", "alert", "problem", Phase.OVER)


MACHINE = Machine(
    "An image",
    {
        ImageStatus.UPLOADED: (ImageStatus.INGESTED, ImageStatus.FAILED),
        ImageStatus.INGESTED: (ImageStatus.STORED, ImageStatus.FAILED),
        ImageStatus.STORED: (),
        ImageStatus.FAILED: (ImageStatus.UPLOADED,),
    },
)


@dataclass(frozen=True, slots=True)
class Image:
    id: ImageId
    organization: str
    name: str
    idempotency_key: str
    status: ImageStatus
    temp_path: str
    checksum: str
    mime_type: str
    width: int
    height: int
    size_bytes: int
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Recordable:
    """An upload that is to be recorded; its job is leased to `lessee`, the worker here, or to
    nobody."""

    image: Image
    lines: Sequence[Line]
    lessee: str | None = None


class Recording(StrEnum):
    """What became of the wish to record an image under a name that has to be free."""

    RECORDED = "recorded"
    TAKEN = "taken"
    BUSY = "busy"  # somebody else in the organization chooses a name at this moment


class OffloadOutcome(StrEnum):
    """What the last step of an offload did; see image_stored and image_failed in sql/ingest.sql."""

    STORED = "stored"
    BEATEN = "beaten"
    WANTED = "wanted"
    ALREADY_DONE = "already_done"
    LOST = "lost"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OffloadResult:
    outcome: OffloadOutcome
    etag: str = ""
    event_id: int | None = None
    event_time: int | None = None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class OffloadWait:
    """Something kept an image from its storage: when it is tried again, and what it was."""

    next_at: int
    error: dict[str, str] | None
