"""An entry of the library: what clients see, how its run stands, and what finds it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from safelight.infra.states import Machine, Phase, State

# What the world is told, and the fields of each message.
MESSAGES = {
    "classification_workflow_started": ("name", "idempotencyKey", "run"),
    "classification_workflow_skipped": ("name", "eventTime", "reason"),
    "upload_deleted": ("name", "eventTime"),
    "upload_delete_error": ("name", "error"),
}


class RunStatus(State):
    """Of a classification run: one try-until-done of an upload. It stands here, below the feature
    whose work it is, since what an event changes depends on it."""

    PENDING = "pending", "Waiting for a label", "archive"
    RUNNING = "running", "Being classified", "loop"  # a worker has it: never written, but seen
    DONE = "done", "Labelled", "tag", "good", Phase.OVER
    FAILED = "failed", "No label", "alert", "problem", Phase.OVER  # until a person has it redriven
    DROPPED = "dropped", "For nothing", "archive", "plain", Phase.OVER  # its entry has moved on


MACHINE = Machine(
    "A classification run",
    {
        RunStatus.PENDING: (
            RunStatus.PENDING, RunStatus.DONE, RunStatus.FAILED, RunStatus.DROPPED,
        ),
        RunStatus.RUNNING: (  # as the version before wrote it after a failed attempt
            RunStatus.PENDING, RunStatus.DONE, RunStatus.FAILED, RunStatus.DROPPED,
        ),
        RunStatus.DONE: (),
        RunStatus.FAILED: (
            RunStatus.PENDING, RunStatus.DONE, RunStatus.FAILED, RunStatus.DROPPED,
        ),
        RunStatus.DROPPED: (),
    },
)  # fmt: skip

# `classificationStatus`: that of the entry's newest run, which no other has taken the place of.
# While it is under way, the queue says whether a worker has it now.
EntryStatus: TypeAlias = Literal[
    RunStatus.PENDING, RunStatus.RUNNING, RunStatus.DONE, RunStatus.FAILED
]
ENTRY_STATUSES: tuple[EntryStatus, ...] = get_args(EntryStatus)


def entry_status(text: str | None) -> EntryStatus | None:
    """None for any other word."""
    return next((status for status in ENTRY_STATUSES if status == text), None)


THUMBNAIL = 2  # of `drawn`


@dataclass(frozen=True, slots=True)
class Entry:
    """The row of a name, and how its run stands: when it is tried again, and the code and words of
    its last failed attempt, until there is a label."""

    organization: str
    name: str
    event_time: int
    idempotency_key: str
    image_id: str | None
    mime_type: str | None
    width: int | None
    height: int | None
    size_bytes: int | None
    checksum: str | None
    dominant_color: str | None
    drawn: int  # classification's Drawn, in bits
    classification_status: EntryStatus
    classification_label: str | None
    classification_score: float | None
    classification_model: str | None
    classified_at: int | None
    next_attempt_at: int | None = None
    error: Mapping[str, str] | None = None
    labels: tuple[Mapping[str, Any], ...] = ()  # of one that was asked for by its name

    @property
    def has_thumbnail(self) -> bool:
        return bool(self.drawn & THUMBNAIL)


@dataclass(frozen=True, slots=True)
class LibraryFilter:
    """Which entries are asked for; `query` is in PostgreSQL's notation."""

    label: str | None = None
    query: str | None = None
    status: EntryStatus | None = None


@dataclass(frozen=True, slots=True)
class KnownUpload:
    """An image of which somebody asked whether its bytes are here."""

    checksum: str
    name: str
    image_id: str | None
