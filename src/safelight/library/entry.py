"""An entry of the library: what clients see, how its run stands, and what finds it. Pure."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from safelight.infra.states import Machine, Phase, State

# What the world is told, and the fields of each message.
MESSAGES = {
    "classification_workflow_started": ("name", "idempotencyKey", "run"),
    "classification_workflow_skipped": ("name", "eventTime", "reason"),
    "upload_deleted": ("name", "eventTime"),
    "upload_delete_error": ("name", "error"),
}

_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 32


class RunStatus(State):
    """Of a classification run: one try-until-done of an upload. It stands here, below the feature
    whose work it is, since what an event changes depends on it."""

    PENDING = "pending", "Waiting for a label", "archive"
    RUNNING = "running", "Being classified", "loop"  # an attempt has failed, and others follow
    DONE = "done", "Labelled", "tag", "accent", Phase.OVER
    FAILED = "failed", "No label", "alert", "problem", Phase.OVER  # until a person has it redriven
    DROPPED = "dropped", "For nothing", "archive", "plain", Phase.OVER  # its entry has moved on


MACHINE = Machine(
    "A classification run",
    {
        RunStatus.PENDING: (
            RunStatus.RUNNING, RunStatus.DONE, RunStatus.FAILED, RunStatus.DROPPED,
        ),
        RunStatus.RUNNING: (
            RunStatus.RUNNING, RunStatus.DONE, RunStatus.FAILED, RunStatus.DROPPED,
        ),
        RunStatus.DONE: (),
        RunStatus.FAILED: (
            RunStatus.RUNNING, RunStatus.DONE, RunStatus.FAILED, RunStatus.DROPPED,
        ),
        RunStatus.DROPPED: (),
    },
)  # fmt: skip

# `classificationStatus`: that of the entry's newest run, which no other has taken the place of.
EntryStatus: TypeAlias = Literal[
    RunStatus.PENDING, RunStatus.RUNNING, RunStatus.DONE, RunStatus.FAILED
]
ENTRY_STATUSES: tuple[EntryStatus, ...] = get_args(EntryStatus)


def entry_status(text: str | None) -> EntryStatus | None:
    """None for any other word."""
    return next((status for status in ENTRY_STATUSES if status == text), None)


@dataclass(frozen=True, slots=True)
class Entry:
    """The row of a name."""

    organization: str
    name: str
    event_time: int
    idempotency_key: str
    image_id: str | None
    mime_type: str | None
    width: int | None
    height: int | None
    size_bytes: int | None
    classification_status: EntryStatus
    classification_label: str | None
    classification_score: float | None
    classification_model: str | None
    classified_at: int | None


@dataclass(frozen=True, slots=True)
class LibraryFilter:
    """Which entries are asked for; `query` is in PostgreSQL's notation."""

    label: str | None = None
    query: str | None = None
    status: EntryStatus | None = None


def words(*texts: str | None) -> list[str]:
    """What an entry is found by, of its name and label: lower case, without accents, each once;
    `IMG_0042.jpg` has the words img, 0042 and jpg."""
    found: dict[str, None] = {}
    for text in filter(None, texts):
        plain = unicodedata.normalize("NFKD", text.casefold())
        kept = "".join(char for char in plain if not unicodedata.combining(char))
        found.update(dict.fromkeys(_WORD.findall(kept)))
    return list(found)[:_MOST_WORDS]


def prefix_query(text: str) -> str | None:
    """Every word of the text as a prefix, in PostgreSQL's notation; None when it has no word."""
    quoted = [f"'{word}':*" for word in words(text)]  # a word holds no quote and no backslash
    return " & ".join(quoted) or None
