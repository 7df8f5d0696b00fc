"""What Safelight asks of an object store, and what every store promises.

Guarantees (tests/objects/test_conformance.py holds each store to them)
- A key holds one whole object or none: readers see the old bytes or the new, never a mixture.
- A put that returns has its bytes, metadata and event safe; one that is refused, as bytes are that
  differ from the expected sha256, has changed nothing.
- Every put and delete has its event, also when the process dies in between: it is written in the
  same transaction (`local`), or announced by a ticket before and settled afterwards (`s3`).
- No transaction is open while bytes travel.
- Times and sequencers of one key's events rise, whatever the clock does.
- Streams pass through in pieces; memory does not grow with the object.

Gap: in a bucket whose notifications are the source of events, they are the bucket's to keep.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self, TypeVar

import structlog

from safelight.errors import NotFound, SafelightError, Unavailable
from safelight.infra.files import ByteSource, Measured, close_at_once, joined
from safelight.objects.events import Action

R = TypeVar("R")


class NoSuchObject(NotFound):
    """There is no such object."""


class DamagedObject(SafelightError):
    """The stored file of this object is missing or shorter than it was. Upload the image again."""

    code = "DAMAGED"


class StoreUnavailable(Unavailable):
    """The object store cannot be reached right now. Try again in a moment."""

    says_it_all = True

    @classmethod
    def because(cls, reason: str, code: str | None = None) -> Self:
        """The reason names places and keys, so it is the log's. Whoever asked, or sees the job that
        did, hears what to do, and the store's own `code`."""
        structlog.get_logger().warning("store.unavailable", reason=reason)
        return cls(f"{cls.default_message()} ({code})" if code else None, reason=reason)


class Retake(Exception):
    """The blob's file must be looked at again, and written this time. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said of the bytes that are put. `sha256` is compared when given. `seen`: what this
    process has just written to the file itself; a store that keeps the file and copies nothing need
    not read it again."""

    content_type: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    sha256: str | None = None
    seen: Measured | None = None


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size: int
    content_type: str
    metadata: Mapping[str, str]
    etag: str
    event_time: int


@dataclass(frozen=True, slots=True)
class Listed:
    key: str
    size: int
    etag: str
    event_time: int


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes `start` to `stop` (exclusive) of an object. Where it lies in a file, `open` gives a
    descriptor of the whole, for the caller to close. `sha256` is the whole's, where the index says
    so."""

    info: ObjectInfo
    start: int
    stop: int
    chunks: AsyncIterator[bytes]
    open: Callable[[], int] | None = None
    sha256: str | None = None

    @asynccontextmanager
    async def source(self) -> AsyncIterator[bytes | int]:
        """All of it, for a child: an open file's descriptor, so that the bytes never pass through
        this process; else the bytes."""
        if self.open is None:
            yield await joined(self.chunks)
            return
        file = self.open()
        try:
            yield file
        finally:
            close_at_once(file)


@dataclass(frozen=True, slots=True)
class Written:
    """A put or delete that happened. No event: the bucket's own notification will tell, or nothing
    was left to end."""

    event_id: int | None
    event_time: int
    job_id: int | None


class Place(StrEnum):
    """Where the bytes of a put are when its transaction is written (see image_stored in SQL)."""

    INGEST = "ingest"  # not in the store yet
    BLOB = "blob"
    BUCKET = "bucket"
    TELLING_BUCKET = "telling-bucket"  # its notifications are the source of events


@dataclass(frozen=True, slots=True)
class Landed:
    """Bytes that are safe in the store; the transaction that follows makes them the object. A
    bucket's have the `ticket` that the same transaction ends."""

    place: Place
    etag: str
    size: int
    sha256: str
    epoch: int = 0
    written: bool = False
    ticket: int | None = None

    def node(self, of_file: str) -> str | None:
        """Where the file is that these came from, if they may have to be put back from it."""
        return of_file if self.place in {Place.BUCKET, Place.TELLING_BUCKET} else None


@dataclass(frozen=True, slots=True)
class Cleared:
    """A key that holds no bytes any more, or will not from the transaction on that follows."""

    place: Place
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Blob:
    """A row of the built-in store's files."""

    sha256: str
    size: int
    state: str


@dataclass(frozen=True, slots=True)
class BlobFiles:
    """The built-in store's files, for whoever knows a blob. `open(sha256, size)` gives a descriptor
    for the caller to close, or raises `DamagedObject`; `suspect(sha256)` is for one that was found
    to be of other bytes: it is looked at, as scrubbing does; `lacking` says which of some blobs,
    given with their sizes, have no such file."""

    open: Callable[[str, int], int]
    suspect: Callable[[str], Awaitable[None]]
    lacking: Callable[[Mapping[str, int]], Awaitable[set[str]]]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A write to a bucket that has begun. `seen` is when the key's last event was, then."""

    id: int
    action: Action
    seen: int | None


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A key with open tickets: when its last event was, and what the index says it holds."""

    key: str
    tickets: tuple[Ticket, ...]
    last: int | None
    indexed: ObjectInfo | None

    @property
    def ids(self) -> list[int]:
        return [ticket.id for ticket in self.tickets]


# The last step of a put: index, event, and what must be true together with them, in one statement
# or one transaction of its own. It decides anew: others may have come between.
PutWrite = Callable[[Landed], Awaitable[R]]
# Asked before bytes replace others. An answer ends the put there.
Beaten = Callable[[], Awaitable[R | None]]
# The last step of a delete.
DeleteWrite = Callable[[Cleared], Awaitable[R]]
# Asked when the delete's ticket is committed, with its number: whether to go on.
Still = Callable[[int], Awaitable[bool]]


class ObjectStore(Protocol):
    @property
    def telling(self) -> bool:
        """Whether its own notifications are the source of events, and not what we write."""

    async def put(self, key: str, source: ByteSource, facts: Facts) -> Written:
        """Keys under a reserved prefix can be put too; their events are delivered to nobody."""

    async def put_with(
        self,
        key: str,
        source: ByteSource,
        facts: Facts,
        write: PutWrite[R],
        beaten: Beaten[R] | None = None,
    ) -> R:
        """A put whose last step is the caller's. `write` may be called again when it raises
        `Retake`."""

    async def head(self, key: str) -> ObjectInfo:
        """Raises `NoSuchObject`."""

    async def get(
        self, key: str, start: int = 0, stop: int | None = None, etag: str | None = None
    ) -> Content:
        """From `start` up to `stop` or the end. Raises `NoSuchObject`, `RangeNotSatisfiable` when
        the range holds no byte, or `Overwritten` when there is not what has that etag."""

    async def delete(self, key: str) -> Written:
        """A key that is not there is no error, and has its event as well."""

    async def delete_with(self, key: str, write: DeleteWrite[R]) -> R:
        """A delete whose last step is the caller's."""

    async def delete_if(self, key: str, still: Still, write: DeleteWrite[bool]) -> bool:
        """The same of what nobody asked to delete: a write that came before it, or comes meanwhile,
        stands. `write` decides under the key's lock; a bucket, whose bytes go before that, asks
        `still` first. False: nothing went, or what went is put back."""

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Listed]:
        """Keys in the order of their UTF-8 bytes. A prefix is empty or ends with a slash."""

    async def check(self) -> None:
        """Raises `StoreUnavailable` when nothing could be stored right now."""

    async def close(self) -> None: ...
