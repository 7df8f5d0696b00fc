"""The decisions as tables; test_order_histories.py plays whole histories."""

from typing import TypeAlias

import pytest

from safelight.library.entry import RunStatus
from safelight.library.order import (
    BeatenBy,
    CreateDecision,
    CreateFacts,
    DeleteDecision,
    KeepTombstone,
    Mark,
    MoveTime,
    RemoveRow,
    Skip,
    SkipReason,
    Stamp,
    StartRun,
    StoreNow,
    Tombstone,
    WriteMarker,
    compare,
    compare_sequencers,
    decide_create,
    decide_delete,
    delete_is_doubtful,
    is_newer,
)
from safelight.objects.events import OURS, Action, ObjectEvent


def at(time: int, sequencer: str | None = None, source: str = "r2") -> Stamp:
    return Stamp(time, sequencer, source)


def mark(time: int, key: str = "A", etag: str | None = "a", sequencer: str | None = None) -> Mark:
    return Mark(at(time, sequencer), key, etag)


A_NOW = StoreNow("a", "A")
B_NOW = StoreNow("b", "B")
ROW_WON = BeatenBy(100, "A")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1", "2"),
        ("09", "0A"),
        ("0a", "0B"),
        ("0055AED6DCD90281E5", "0055AED6DCD90281E6"),
        ("0055AED6DCD902", "0055AED6DCD90281E5"),  # as if zeros followed
        ("1000", "2"),
    ],
)
def test_sequencers_are_compared_as_s3_wants(older: str, newer: str) -> None:
    assert compare_sequencers(older, newer) == -1
    assert compare_sequencers(newer, older) == 1


@pytest.mark.parametrize(("a", "b"), [("ab", "AB"), ("ab", "ab00"), ("0", "000")])
def test_sequencers_that_are_the_same(a: str, b: str) -> None:
    assert compare_sequencers(a, b) == 0


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        (at(100), at(100), 0),
        (at(101), at(100), 1),
        (at(99), at(100), -1),
        (at(99, "5"), at(100, "4"), 1),  # the number outranks the time
        (at(101, "4"), at(100, "5"), -1),
        (at(101, "4"), at(100), 1),  # only one has a number
        (at(100), at(100, "5"), 0),
        (at(101, "4", "s3"), at(100, "5", "minio"), 1),  # numbers of two sources
        (at(100, "4", "s3"), at(100, "5", "minio"), 0),
        (at(101, "5"), at(100, "5"), 1),  # a delete numbered like the object it deletes
    ],
)
def test_which_event_is_newer(a: Stamp, b: Stamp, order: int) -> None:
    assert compare(a, b) == order
    assert compare(b, a) == -order
    assert is_newer(a, b) == (order > 0)


CreateCase: TypeAlias = tuple[
    Mark | None, Tombstone | None, CreateFacts, StoreNow | None, RunStatus | None, CreateDecision
]
# fmt: off
CREATES: dict[str, CreateCase] = {
    "a first upload": (
        None, None, CreateFacts(at(100), "a"), A_NOW, None,
        WriteMarker(mark(100), None),
    ),
    "older than the row": (
        mark(100), None, CreateFacts(at(99), "a"), A_NOW, RunStatus.FAILED,
        Skip(SkipReason.STALE, ROW_WON),
    ),
    "older than the row, whatever the store holds": (
        mark(100), None, CreateFacts(at(99), "b"), B_NOW, None,
        Skip(SkipReason.STALE, ROW_WON),
    ),
    "older than the row by its number": (
        mark(100, sequencer="8"), None, CreateFacts(at(100, "7"), "a"), A_NOW, None,
        Skip(SkipReason.STALE, ROW_WON),
    ),
    "older than the tombstone": (
        None, Tombstone(at(100)), CreateFacts(at(99), "a"), A_NOW, None,
        Skip(SkipReason.STALE, BeatenBy(100, None)),
    ),
    "newer than the tombstone": (
        None, Tombstone(at(100)), CreateFacts(at(101), "a"), A_NOW, None,
        WriteMarker(mark(101), None),
    ),
    "in the tombstone's moment, and the object is there": (
        None, Tombstone(at(100)), CreateFacts(at(100), "a"), A_NOW, None,
        WriteMarker(mark(100), None),
    ),
    "in the tombstone's moment, and the object is gone": (
        None, Tombstone(at(100)), CreateFacts(at(100), "a"), None, None,
        Skip(SkipReason.OBJECT_MISSING),
    ),
    "a tombstone that a row has outlived says nothing": (
        mark(100), Tombstone(at(200)), CreateFacts(at(150), "b"), B_NOW, RunStatus.DONE,
        WriteMarker(mark(150, "B", "b"), mark(100)),
    ),
    "the object is gone": (
        mark(100), None, CreateFacts(at(101), "b"), None, RunStatus.DONE,
        Skip(SkipReason.OBJECT_MISSING),
    ),
    "the object has no marker": (
        mark(100), None, CreateFacts(at(101), "f"), StoreNow("f", None), RunStatus.DONE,
        Skip(SkipReason.UNUSABLE_METADATA),
    ),
    "the event knows the marker of the same bytes": (
        None, None, CreateFacts(at(100), "a", "A"), StoreNow("a", None), None,
        WriteMarker(mark(100), None),
    ),
    "the event's marker is not known to be that of the object": (
        None, None, CreateFacts(at(100), None, "A"), StoreNow("f", None), None,
        Skip(SkipReason.UNUSABLE_METADATA),
    ),
    "other bytes are in the store by now": (
        None, None, CreateFacts(at(100), "a"), B_NOW, None,
        Skip(SkipReason.SUPERSEDED, BeatenBy(None, "B")),
    ),
    "the same bytes of another upload are in the store by now": (
        None, None, CreateFacts(at(100), "a", "A"), StoreNow("a", "B"), None,
        Skip(SkipReason.SUPERSEDED, BeatenBy(None, "B")),
    ),
    "an event that knows nothing takes what the store holds": (
        None, None, CreateFacts(at(100)), B_NOW, None,
        WriteMarker(mark(100, "B", "b"), None),
    ),
    "a duplicate while the run is waiting": (
        mark(100), None, CreateFacts(at(100), "a"), A_NOW, RunStatus.PENDING,
        Skip(SkipReason.DUPLICATE, ROW_WON),
    ),
    "a duplicate while the run is active": (
        mark(100), None, CreateFacts(at(100), "a"), A_NOW, RunStatus.RUNNING,
        Skip(SkipReason.DUPLICATE, ROW_WON),
    ),
    "a duplicate after the run": (
        mark(100), None, CreateFacts(at(100), "a"), A_NOW, RunStatus.DONE,
        Skip(SkipReason.DUPLICATE, ROW_WON),
    ),
    "a duplicate after the run failed": (
        mark(100), None, CreateFacts(at(100), "a"), A_NOW, RunStatus.FAILED,
        StartRun(mark(100)),
    ),
    "a duplicate whose run was never made": (
        mark(100), None, CreateFacts(at(100), "a"), A_NOW, None,
        StartRun(mark(100)),
    ),
    "the run was dropped": (
        mark(100), None, CreateFacts(at(100), "a"), A_NOW, RunStatus.DROPPED,
        StartRun(mark(100)),
    ),
    "one upload announced twice": (
        mark(100), None, CreateFacts(at(101), "a"), A_NOW, RunStatus.RUNNING,
        MoveTime(mark(101), ROW_WON),
    ),
    "one upload announced twice, its run failed": (
        mark(100), None, CreateFacts(at(101), "a"), A_NOW, RunStatus.FAILED,
        MoveTime(mark(101), ROW_WON),
    ),
    "a newer upload": (
        mark(100), None, CreateFacts(at(101), "b"), B_NOW, RunStatus.RUNNING,
        WriteMarker(mark(101, "B", "b"), mark(100)),
    ),
    "a newer upload of the same bytes": (
        mark(100), None, CreateFacts(at(101), "a"), StoreNow("a", "B"), RunStatus.DONE,
        WriteMarker(mark(101, "B", "a"), mark(100)),
    ),
    "the same moment, another marker, a higher number": (
        mark(100, sequencer="7"), None, CreateFacts(at(100, "8"), "b"), B_NOW, RunStatus.DONE,
        WriteMarker(mark(100, "B", "b", "8"), mark(100, sequencer="7")),
    ),
    "the same moment, another marker: it is the one in the store": (
        mark(100), None, CreateFacts(at(100), "b"), B_NOW, RunStatus.DONE,
        WriteMarker(mark(100, "B", "b"), mark(100)),
    ),
    "the same moment, another marker: the row's is in the store": (
        mark(100), None, CreateFacts(at(100), "b"), A_NOW, RunStatus.DONE,
        Skip(SkipReason.SUPERSEDED, BeatenBy(None, "A")),
    ),
    "our own event is not beaten by a stray time": (
        mark(10**15), None, CreateFacts(at(100, "1", OURS), "b"), B_NOW, RunStatus.DONE,
        WriteMarker(Mark(at(100, "1", OURS), "B", "b"), mark(10**15)),
    ),
    "nor by a stray tombstone": (
        None, Tombstone(at(10**15)), CreateFacts(at(100, "1", OURS), "a"), A_NOW, None,
        WriteMarker(Mark(at(100, "1", OURS), "A", "a"), None),
    ),
    "our own event again, after a stray one moved the time": (
        mark(10**15), None, CreateFacts(at(100, "1", OURS), "a"), A_NOW, RunStatus.DONE,
        Skip(SkipReason.DUPLICATE, BeatenBy(10**15, "A")),
    ),
}
# fmt: on


@pytest.mark.parametrize("case", CREATES)
def test_create(case: str) -> None:
    row, tombstone, event, store, run, decision = CREATES[case]
    assert decide_create(row, tombstone, event, store, run) == decision


DeleteCase: TypeAlias = tuple[
    Mark | None, Tombstone | None, Stamp, StoreNow | None, bool, DeleteDecision
]
# fmt: off
DELETES: dict[str, DeleteCase] = {
    "no row": (None, None, at(100), None, False, KeepTombstone(Tombstone(at(100)))),
    "no row, a newer delete": (
        None, Tombstone(at(100)), at(101), None, False, KeepTombstone(Tombstone(at(101))),
    ),
    "no row, an older delete": (
        None, Tombstone(at(100)), at(99), None, False, Skip(SkipReason.STALE, BeatenBy(100, None)),
    ),
    "no row, the same delete": (
        None, Tombstone(at(100)), at(100), None, False,
        Skip(SkipReason.DUPLICATE, BeatenBy(100, None)),
    ),
    "no row, the same moment with a number": (
        None, Tombstone(at(100)), at(100, "7"), None, False, KeepTombstone(Tombstone(at(100, "7"))),
    ),
    "older than the row": (mark(100), None, at(99), None, False, Skip(SkipReason.STALE, ROW_WON)),
    "older than the row by its number": (
        mark(100, sequencer="8"), None, at(100, "7"), None, False, Skip(SkipReason.STALE, ROW_WON),
    ),
    "newer than the row": (
        mark(100), None, at(101), None, False, RemoveRow(mark(100), Tombstone(at(101))),
    ),
    "newer than the row, another object is there": (
        mark(100), None, at(101), StoreNow("a", "B"), False,
        RemoveRow(mark(100), Tombstone(at(101))),
    ),
    "newer than the row's time, but the row's object is there": (
        mark(100), None, at(101), A_NOW, False, Skip(SkipReason.OBJECT_PRESENT, ROW_WON),
    ),
    "newer by its number": (
        mark(100, sequencer="7"), None, at(100, "8"), None, False,
        RemoveRow(mark(100, sequencer="7"), Tombstone(at(100, "8"))),
    ),
    "numbered like the object, at a later time": (
        mark(100, sequencer="7"), None, at(101, "7"), None, False,
        RemoveRow(mark(100, sequencer="7"), Tombstone(at(101, "7"))),
    ),
    "the same moment, and nothing is there": (
        mark(100), None, at(100), None, False, RemoveRow(mark(100), Tombstone(at(100))),
    ),
    "the same moment, and the row's object is there": (
        mark(100), None, at(100), A_NOW, False, Skip(SkipReason.OBJECT_PRESENT, ROW_WON),
    ),
    "the same moment, and the row's bytes are there": (
        mark(100), None, at(100), StoreNow("a", None), False, Skip(SkipReason.OBJECT_PRESENT, ROW_WON),
    ),
    "the same moment, and other bytes are there": (
        mark(100), None, at(100), B_NOW, False, RemoveRow(mark(100), Tombstone(at(100))),
    ),
    "the tombstone never goes back": (
        mark(100), Tombstone(at(200)), at(150), None, False,
        RemoveRow(mark(100), Tombstone(at(200))),
    ),
    "from outside, and the built-in store has the object": (
        mark(100), None, at(101), B_NOW, True, Skip(SkipReason.OBJECT_PRESENT, BeatenBy(None, "B")),
    ),
    "from outside, and the built-in store has an object without a row": (
        None, None, at(101), B_NOW, True, Skip(SkipReason.OBJECT_PRESENT, BeatenBy(None, "B")),
    ),
    "from outside, and the built-in store has nothing": (
        mark(100), None, at(101), None, True, RemoveRow(mark(100), Tombstone(at(101))),
    ),
    "our own, and the built-in store has a later object": (
        mark(100), None, at(101, "2", OURS), B_NOW, True,
        RemoveRow(mark(100), Tombstone(at(101, "2", OURS))),
    ),
    "our own, after a stray event moved the row's time": (
        mark(10**15), None, at(101, "2", OURS), None, True,
        RemoveRow(mark(10**15), Tombstone(at(101, "2", OURS))),
    ),
    "our own again, after a stray event moved the time of a later upload": (
        mark(10**15), None, at(101, "2", OURS), A_NOW, True,
        Skip(SkipReason.OBJECT_PRESENT, BeatenBy(10**15, "A")),
    ),
    "our own in a bucket, where the store was not asked": (
        mark(10**15), None, at(101, "2", OURS), None, False,
        Skip(SkipReason.STALE, BeatenBy(10**15, "A")),
    ),
}
# fmt: on


@pytest.mark.parametrize("case", DELETES)
def test_delete(case: str) -> None:
    row, tombstone, event, store, built_in, decision = DELETES[case]
    assert decide_delete(row, tombstone, event, store, built_in=built_in) == decision


@pytest.mark.parametrize(
    ("row", "event", "doubtful"),
    [
        (None, at(100), False),
        (mark(99), at(100), False),
        (mark(101), at(100), False),
        (mark(100), at(100), True),
        (mark(100, sequencer="7"), at(100, "8"), True),
    ],
)
def test_the_store_need_only_be_asked_within_one_moment(
    row: Mark | None, event: Stamp, doubtful: bool
) -> None:
    assert delete_is_doubtful(row, event) is doubtful


@pytest.mark.parametrize("metadata", [None, {}, {"idempotencyKey": ""}, {"idempotencyKey": "A"}])
def test_facts_of_a_stored_event(metadata: dict[str, str] | None) -> None:
    event = ObjectEvent(
        id=1,
        source="s3",
        action=Action.CREATED,
        key="acme/cat.png",
        organization="acme",
        event_time=100,
        sequencer="7",
        etag="",
        size=None,
        metadata=metadata,
    )
    marker = "A" if metadata and metadata["idempotencyKey"] else None
    assert CreateFacts.of(event) == CreateFacts(at(100, "7", "s3"), None, marker)
