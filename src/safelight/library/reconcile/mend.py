"""What is wrong with a name, and what would put it right. Pure.

Nothing is put right here by hand: what the store holds is told again, as if for the first time, and
the order of events decides as always; or a run is started as an event would start it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from safelight.library.entry import RunStatus
from safelight.library.order import Mark, Snapshot, StoreNow
from safelight.objects.store import ObjectInfo


class Difference(StrEnum):
    """A way in which bucket, index and library disagree, as the report calls it."""

    NO_ENTRY = "objectWithoutEntry"
    OTHER_ENTRY = "otherUpload"
    NO_OBJECT = "entryWithoutObject"
    GONE = "missingInBucket"
    UNKNOWN = "unknownToIndex"
    CHANGED = "changedInBucket"
    STRANGE = "strangeBytes"
    NO_FILE = "missingFile"
    IDLE = "runWithoutJob"

    @property
    def words(self) -> str:
        return _WORDS[self]

    @property
    def is_persons(self) -> bool:
        """Nothing can be told that would put it right."""
        return self in {Difference.STRANGE, Difference.NO_FILE}


_WORDS = {
    Difference.NO_ENTRY: "objects that the library does not have",
    Difference.OTHER_ENTRY: "entries of another upload than the object's",
    Difference.NO_OBJECT: "entries without an object",
    Difference.GONE: "objects of the index that the bucket does not hold",
    Difference.UNKNOWN: "uploads in the bucket that the index does not know",
    Difference.CHANGED: "objects that are not what the index says",
    Difference.STRANGE: "names under which the bucket holds bytes that are no upload",
    Difference.NO_FILE: "objects whose file is missing or cut off",
    Difference.IDLE: "entries that wait for a run nobody works on",
}


@dataclass(frozen=True, slots=True)
class TellCreated:
    """The store holds an upload that the entry, if there is one, does not stand for."""

    difference: Difference
    found: str
    what: str = "created"


@dataclass(frozen=True, slots=True)
class TellDeleted:
    """There is an entry, and the store holds nothing."""

    mark: Mark
    difference: Difference = Difference.NO_OBJECT
    found: str = "The library had this image and the store does not hold it: its end is told again."
    what: str = "deleted"


@dataclass(frozen=True, slots=True)
class RestartRun:
    """The entry waits for a run that nobody works on."""

    mark: Mark
    difference: Difference = Difference.IDLE
    found: str = "It waited for a label and nothing was at work on it: a new run was started."
    what: str = "restarted"


@dataclass(frozen=True, slots=True)
class SayFailed:
    """The entry waits for a run that has given up. Its dead letter is a person's; `error` is what
    that says, none when the run's own row says it already."""

    mark: Mark
    error: Mapping[str, Any] | None
    difference: Difference = Difference.IDLE
    found: str = "It waited for a label and its run had given up: it now says so."
    what: str = "failed"


@dataclass(frozen=True, slots=True)
class FollowBucket:
    """The bucket was changed by somebody else: index and events follow it to what it holds, which
    is none when the object is gone."""

    held: ObjectInfo | None
    difference: Difference
    found: str
    what: str = "followed"


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Somebody else's bytes are where an upload was: there is nothing to tell."""

    difference: Difference = Difference.STRANGE


Mend: TypeAlias = TellCreated | TellDeleted | RestartRun | SayFailed | FollowBucket

_NO_ENTRY = (
    "The store holds this image and the library did not have it: its creation is told again."
)
_OTHER = "The store holds another upload than the library had: its creation is told again."
_GONE = "Somebody has removed this image from the bucket: the library follows."
_UNKNOWN = "Somebody has put this image into the bucket: the library follows."
_CHANGED = "Somebody has changed this image in the bucket: the library follows."


def decide_mend(
    found: Snapshot, held: StoreNow | None, letter: Mapping[str, Any] | None
) -> Mend | None:
    """`held` is what the store has, `letter` the error of the run's dead letter. None: all is well,
    or it is not ours to judge, as an object without a marker."""
    row = found.row
    if held is None:
        return TellDeleted(row) if row else None
    if row is None or not _stands_for(row, held):
        return _told(row) if held.idempotency_key else None
    if found.status is None or not found.status.under_way:
        return None
    if found.run is not None and found.run.under_way:
        return None
    if letter is not None or found.run is RunStatus.FAILED:
        return SayFailed(row, letter)
    return RestartRun(row)


def decide_follow(
    indexed: ObjectInfo | None, held: ObjectInfo | None
) -> FollowBucket | AskPerson | None:
    """Of a bucket that tells nothing, and is ours alone to write to: what the index says of a key
    with which nothing is under way, and what the bucket holds. None: they agree, or the bucket has
    an object that never was an upload."""
    if held is None:
        return FollowBucket(None, Difference.GONE, _GONE) if indexed else None
    ours = _marker(held) is not None
    if indexed is None:
        return FollowBucket(held, Difference.UNKNOWN, _UNKNOWN) if ours else None
    if _identity(indexed) == _identity(held):
        return None
    if not ours:
        return AskPerson()
    return FollowBucket(held, Difference.CHANGED, _CHANGED)


def _told(row: Mark | None) -> TellCreated:
    if row is None:
        return TellCreated(Difference.NO_ENTRY, _NO_ENTRY)
    return TellCreated(Difference.OTHER_ENTRY, _OTHER)


def _stands_for(row: Mark, held: StoreNow) -> bool:
    if held.idempotency_key is None:
        return row.etag == held.etag
    return row.idempotency_key == held.idempotency_key


def _marker(info: ObjectInfo) -> str | None:
    return info.metadata.get("idempotencyKey")


def _identity(info: ObjectInfo) -> tuple[str, int, str | None]:
    return info.etag, info.size, _marker(info)


@dataclass(frozen=True, slots=True)
class Name:
    """Of an image, in its organization."""

    organization: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.organization}/{self.name}"
