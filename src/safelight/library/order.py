"""Which events change the library, and how: the decisions alone, for whoever holds the name's lock.

Guarantees, when the store is read after the lock is taken and each event comes at least once: the
row ends as what the store holds, whatever the order and number of deliveries; a row appears only
for an object that is there; a newer upload is not removed by an older delete.

Strict comparisons are trusted. Where nothing tells two events apart (whole seconds, no sequencers),
the store decides. A delete may be decided without asking the store; `delete_is_doubtful` says when
that would be a guess.
Known gaps: a source's clock that goes back misleads; so does one that mixes whole seconds with
milliseconds. In a bucket with versions the removal of an old version looks like one of the object.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeAlias, TypeVar

from safelight.library.entry import RunStatus
from safelight.objects.events import OURS, ObjectEvent

_Ordered = TypeVar("_Ordered", int, str)


# What is decided upon


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
class Mark:
    """What the row of a name stands for: its marker (`idempotency_key`), and the event that last
    confirmed it."""

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
class Present:
    """The same, with what the row takes over from it."""

    now: StoreNow
    content_type: str
    size: int
    metadata: Mapping[str, str]

    @classmethod
    def of(cls, etag: str, content_type: str, size: int, metadata: Mapping[str, str]) -> Self:
        return cls(StoreNow(etag, metadata.get("idempotencyKey")), content_type, size, metadata)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is known of a name under its lock. `present` is what the index holds, `run` how the
    newest run of the row's marker stands (none: no job works on it), `status` what the entry says
    of it."""

    row: Mark | None
    tombstone: Tombstone | None
    present: Present | None
    run: RunStatus | None
    status: RunStatus | None
    run_number: int | None

    @property
    def lost_run(self) -> int | None:
        """The run that the entry waits for although no job works on it."""
        waits = self.status is not None and self.status.under_way and self.run is None
        return self.run_number if waits else None


@dataclass(frozen=True, slots=True)
class BeatenBy:
    """What was stronger than a dropped event: a row, a tombstone (no key), an object (no time)."""

    event_time: int | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class Arrived:
    """What became of an upload on the short road (arrival.py), and its run's job if it took it."""

    taken: bool
    job_id: int | None = None


# What is decided


class SkipReason(StrEnum):
    """Why an event changes nothing. The first four are told to clients."""

    STALE = "stale"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    SAME_UPLOAD = "same_upload"
    OBJECT_MISSING = "object_missing"
    UNUSABLE_METADATA = "unusable_metadata"
    OBJECT_PRESENT = "object_present"


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing changes; the event is done."""

    reason: SkipReason
    beaten_by: BeatenBy | None = None


@dataclass(frozen=True, slots=True)
class MoveTime:
    """One upload announced again: the row takes the stamp, and no run starts."""

    mark: Mark
    beaten_by: BeatenBy
    reason: SkipReason = SkipReason.SAME_UPLOAD


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """The row becomes `mark`, without label, score and time. The run of the marker it replaces is
    stopped, and one for the new marker is started after reconciling."""

    mark: Mark
    replaces: Mark | None


@dataclass(frozen=True, slots=True)
class StartRun:
    """The row is right, its run is missing or failed: reconcile, then start one."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class RemoveRow:
    mark: Mark
    tombstone: Tombstone


@dataclass(frozen=True, slots=True)
class KeepTombstone:
    """There is no row, but what is older than this delete must stay away."""

    tombstone: Tombstone


CreateDecision: TypeAlias = Skip | MoveTime | WriteMarker | StartRun
DeleteDecision: TypeAlias = Skip | RemoveRow | KeepTombstone


def decide_create(
    row: Mark | None,
    tombstone: Tombstone | None,
    event: CreateFacts,
    store: StoreNow | None,
    run: RunStatus | None,
) -> CreateDecision:
    """`store` is None when the object is not there; `run` is that of the row's marker."""
    if beaten := _beaten(row, tombstone, event.stamp):
        return Skip(SkipReason.STALE, beaten)
    if store is None:
        return Skip(SkipReason.OBJECT_MISSING)
    if _is_superseded(event, store):
        return Skip(SkipReason.SUPERSEDED, BeatenBy(None, store.idempotency_key))
    marker = store.idempotency_key or _marker_of_same_bytes(event, store)
    if marker is None:
        return Skip(SkipReason.UNUSABLE_METADATA)
    return _decide_winner(row, Mark(event.stamp, marker, store.etag), run)


def decide_delete(
    row: Mark | None,
    tombstone: Tombstone | None,
    event: Stamp,
    store: StoreNow | None,
    *,
    built_in: bool,
) -> DeleteDecision:
    """`store` is None when the object is not there, or was not asked for; the built-in store's
    index is always asked."""
    if built_in and store is not None and event.source != OURS:
        return Skip(SkipReason.OBJECT_PRESENT, BeatenBy(None, store.idempotency_key))
    if row is None:
        return _bury(tombstone, event)
    order = _against(event, row.stamp) if built_in else compare(event, row.stamp)
    if order < 0:
        return Skip(SkipReason.STALE, _row_won(row))
    if store is not None and _holds(store, row, doubtful=order == 0):
        return Skip(SkipReason.OBJECT_PRESENT, _row_won(row))
    return RemoveRow(row, Tombstone(_newest(tombstone, event)))


def delete_is_doubtful(row: Mark | None, event: Stamp) -> bool:
    """Within one moment only the store knows whether the row's object came before or after."""
    return row is not None and row.stamp.event_time == event.event_time


def is_newer(a: Stamp, b: Stamp) -> bool:
    return compare(a, b) > 0


def compare(a: Stamp, b: Stamp) -> int:
    """-1 when `a` is older, 1 when it is newer, 0 when nothing tells. Both are of one key."""
    by_time = _sign(a.event_time, b.event_time)
    if a.source != b.source or a.sequencer is None or b.sequencer is None:
        return by_time
    # MinIO numbers by the object's own time of change: one number may still be two events.
    return compare_sequencers(a.sequencer, b.sequencer) or by_time


def compare_sequencers(a: str, b: str) -> int:
    """As S3 wants it: hexadecimal, the shorter one filled with zeros on the right."""
    width = max(len(a), len(b))
    return _sign(a.lower().ljust(width, "0"), b.lower().ljust(width, "0"))


def _beaten(row: Mark | None, tombstone: Tombstone | None, event: Stamp) -> BeatenBy | None:
    if row is not None:
        return _row_won(row) if _against(event, row.stamp) < 0 else None
    if tombstone is not None and _against(event, tombstone.stamp) < 0:
        return BeatenBy(tombstone.stamp.event_time, None)
    return None


def _against(event: Stamp, other: Stamp) -> int:
    """Our own store's event is not outranked by a time that somebody else's clock gave, or one
    stray notification could keep a name from ever changing again."""
    return 0 if event.source == OURS != other.source else compare(event, other)


def _is_superseded(event: CreateFacts, store: StoreNow) -> bool:
    other_bytes = event.etag is not None and event.etag != store.etag
    return other_bytes or (
        event.idempotency_key is not None
        and store.idempotency_key is not None
        and event.idempotency_key != store.idempotency_key
    )


def _marker_of_same_bytes(event: CreateFacts, store: StoreNow) -> str | None:
    return event.idempotency_key if event.etag == store.etag else None


def _decide_winner(row: Mark | None, mark: Mark, run: RunStatus | None) -> CreateDecision:
    """The event is not older than the row and tells of the object that is there, so it wins."""
    if row is None or row.idempotency_key != mark.idempotency_key:
        return WriteMarker(mark, row)
    if is_newer(mark.stamp, row.stamp):
        return MoveTime(mark, _row_won(row))
    if run in {None, RunStatus.FAILED, RunStatus.DROPPED}:
        return StartRun(row)
    return Skip(SkipReason.DUPLICATE, _row_won(row))


def _holds(store: StoreNow, row: Mark, *, doubtful: bool) -> bool:
    same_upload = store.idempotency_key == row.idempotency_key
    return same_upload or (doubtful and store.etag == row.etag)


def _bury(tombstone: Tombstone | None, event: Stamp) -> DeleteDecision:
    newest = _newest(tombstone, event)
    if tombstone is None or newest != tombstone.stamp:
        return KeepTombstone(Tombstone(newest))
    reason = SkipReason.DUPLICATE if compare(event, newest) == 0 else SkipReason.STALE
    return Skip(reason, BeatenBy(newest.event_time, None))


def _newest(tombstone: Tombstone | None, event: Stamp) -> Stamp:
    if tombstone is None:
        return event
    order = compare(event, tombstone.stamp)
    more_exact = order == 0 and tombstone.stamp.sequencer is None
    return event if order > 0 or more_exact else tombstone.stamp


def _row_won(row: Mark) -> BeatenBy:
    return BeatenBy(row.stamp.event_time, row.idempotency_key)


def _sign(a: _Ordered, b: _Ordered) -> int:
    return (a > b) - (a < b)
