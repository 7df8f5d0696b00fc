"""What is wrong with an entry, and what would put it right. Pure.

Nothing is put right here by hand: what the store holds is told again, as if for the first time, and
the order of events decides as always; or a run is started as an event would start it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from safelight.library.entry import RunStatus
from safelight.library.order import Mark, Snapshot, StoreNow


@dataclass(frozen=True, slots=True)
class TellCreated:
    """The store holds an upload that the entry, if there is one, does not stand for."""

    found: str
    what: str = "created"


@dataclass(frozen=True, slots=True)
class TellDeleted:
    """There is an entry, and the store holds nothing."""

    mark: Mark
    found: str = "The library had this image and the store does not hold it: its end is told again."
    what: str = "deleted"


@dataclass(frozen=True, slots=True)
class RestartRun:
    """The entry waits for a run that nobody works on."""

    mark: Mark
    found: str = "It waited for a label and nothing was at work on it: a new run was started."
    what: str = "restarted"


@dataclass(frozen=True, slots=True)
class SayFailed:
    """The entry waits for a run that has given up. Its dead letter is a person's; `error` is what
    that says, none when the run's own row says it already."""

    mark: Mark
    error: Mapping[str, Any] | None
    found: str = "It waited for a label and its run had given up: it now says so."
    what: str = "failed"


Mend: TypeAlias = TellCreated | TellDeleted | RestartRun | SayFailed

_NO_ENTRY = (
    "The store holds this image and the library did not have it: its creation is told again."
)
_OTHER = "The store holds another upload than the library had: its creation is told again."


def decide_mend(
    found: Snapshot, held: StoreNow | None, letter: Mapping[str, Any] | None
) -> Mend | None:
    """`held` is what the store has, `letter` the error of the run's dead letter. None: all is well,
    or it is not ours to judge, as an object without a marker."""
    row = found.row
    if held is None:
        return TellDeleted(row) if row else None
    if row is None or not _stands_for(row, held):
        return TellCreated(_OTHER if row else _NO_ENTRY) if held.idempotency_key else None
    if found.status is None or not found.status.under_way:
        return None
    if found.run is not None and found.run.under_way:
        return None
    if letter is not None or found.run is RunStatus.FAILED:
        return SayFailed(row, letter)
    return RestartRun(row)


def _stands_for(row: Mark, held: StoreNow) -> bool:
    if held.idempotency_key is None:
        return row.etag == held.etag
    return row.idempotency_key == held.idempotency_key


@dataclass(frozen=True, slots=True)
class Name:
    """Of an image, in its organization."""

    organization: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.organization}/{self.name}"


@dataclass(frozen=True, slots=True)
class Page:
    """Names that look wrong, and where the walk goes on; none at its end."""

    suspects: Sequence[Name]
    position: str | None
