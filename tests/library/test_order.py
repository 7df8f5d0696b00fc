"""The decisions as tables; test_order_histories.py plays whole histories."""

from typing import TypeAlias

import pytest

from safelight.library.entry import (
    BeatenBy,
    CreateFacts,
    Entry,
    RunState,
    Stamp,
    StoreNow,
    Tombstone,
)
from safelight.library.order import (
    CreateDecision,
    DeleteDecision,
    KeepTombstone,
    MoveTime,
    Reason,
    RemoveRow,
    Skip,
    StartRun,
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


def entry(time: int, key: str = "A", etag: str | None = "a", sequencer: str | None = None) -> Entry:
    return Entry(at(time, sequencer), key, etag)


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
    Entry | None, Tombstone | None, CreateFacts, StoreNow | None, RunState | None, CreateDecision
]
# fmt: off
CREATES: dict[str, CreateCase] = {
    "a first upload": (
        None, None, CreateFacts(at(100), "a"), A_NOW, None,
        WriteMarker(entry(100), None),
    ),
    "older than the row": (
        entry(100), None, CreateFacts(at(99), "a"), A_NOW, RunState.FAILED,
        Skip(Reason.STALE, ROW_WON),
    ),
    "older than the row, whatever the store holds": (
        entry(100), None, CreateFacts(at(99), "b"), B_NOW, None,
        Skip(Reason.STALE, ROW_WON),
    ),
    "older than the row by its number": (
        entry(100, sequencer="8"), None, CreateFacts(at(100, "7"), "a"), A_NOW, None,
        Skip(Reason.STALE, ROW_WON),
    ),
    "older than the tombstone": (
        None, Tombstone(at(100)), CreateFacts(at(99), "a"), A_NOW, None,
        Skip(Reason.STALE, BeatenBy(100, None)),
    ),
    "newer than the tombstone": (
        None, Tombstone(at(100)), CreateFacts(at(101), "a"), A_NOW, None,
        WriteMarker(entry(101), None),
    ),
    "in the tombstone's moment, and the object is there": (
        None, Tombstone(at(100)), CreateFacts(at(100), "a"), A_NOW, None,
        WriteMarker(entry(100), None),
    ),
    "in the tombstone's moment, and the object is gone": (
        None, Tombstone(at(100)), CreateFacts(at(100), "a"), None, None,
        Skip(Reason.OBJECT_MISSING),
    ),
    "a tombstone that a row has outlived says nothing": (
        entry(100), Tombstone(at(200)), CreateFacts(at(150), "b"), B_NOW, RunState.DONE,
        WriteMarker(entry(150, "B", "b"), entry(100)),
    ),
    "the object is gone": (
        entry(100), None, CreateFacts(at(101), "b"), None, RunState.DONE,
        Skip(Reason.OBJECT_MISSING),
    ),
    "the object has no marker": (
        entry(100), None, CreateFacts(at(101), "f"), StoreNow("f", None), RunState.DONE,
        Skip(Reason.UNUSABLE_METADATA),
    ),
    "the event knows the marker of the same bytes": (
        None, None, CreateFacts(at(100), "a", "A"), StoreNow("a", None), None,
        WriteMarker(entry(100), None),
    ),
    "the event's marker is not known to be that of the object": (
        None, None, CreateFacts(at(100), None, "A"), StoreNow("f", None), None,
        Skip(Reason.UNUSABLE_METADATA),
    ),
    "other bytes are in the store by now": (
        None, None, CreateFacts(at(100), "a"), B_NOW, None,
        Skip(Reason.SUPERSEDED, BeatenBy(None, "B")),
    ),
    "the same bytes of another upload are in the store by now": (
        None, None, CreateFacts(at(100), "a", "A"), StoreNow("a", "B"), None,
        Skip(Reason.SUPERSEDED, BeatenBy(None, "B")),
    ),
    "an event that knows nothing takes what the store holds": (
        None, None, CreateFacts(at(100)), B_NOW, None,
        WriteMarker(entry(100, "B", "b"), None),
    ),
    "a duplicate while the run is waiting": (
        entry(100), None, CreateFacts(at(100), "a"), A_NOW, RunState.PENDING,
        Skip(Reason.DUPLICATE, ROW_WON),
    ),
    "a duplicate while the run is active": (
        entry(100), None, CreateFacts(at(100), "a"), A_NOW, RunState.RUNNING,
        Skip(Reason.DUPLICATE, ROW_WON),
    ),
    "a duplicate after the run": (
        entry(100), None, CreateFacts(at(100), "a"), A_NOW, RunState.DONE,
        Skip(Reason.DUPLICATE, ROW_WON),
    ),
    "a duplicate after the run failed": (
        entry(100), None, CreateFacts(at(100), "a"), A_NOW, RunState.FAILED,
        StartRun(entry(100)),
    ),
    "a duplicate whose run was never made": (
        entry(100), None, CreateFacts(at(100), "a"), A_NOW, None,
        StartRun(entry(100)),
    ),
    "one upload announced twice": (
        entry(100), None, CreateFacts(at(101), "a"), A_NOW, RunState.RUNNING,
        MoveTime(entry(101), ROW_WON),
    ),
    "one upload announced twice, its run failed": (
        entry(100), None, CreateFacts(at(101), "a"), A_NOW, RunState.FAILED,
        MoveTime(entry(101), ROW_WON),
    ),
    "a newer upload": (
        entry(100), None, CreateFacts(at(101), "b"), B_NOW, RunState.RUNNING,
        WriteMarker(entry(101, "B", "b"), entry(100)),
    ),
    "a newer upload of the same bytes": (
        entry(100), None, CreateFacts(at(101), "a"), StoreNow("a", "B"), RunState.DONE,
        WriteMarker(entry(101, "B", "a"), entry(100)),
    ),
    "the same moment, another marker, a higher number": (
        entry(100, sequencer="7"), None, CreateFacts(at(100, "8"), "b"), B_NOW, RunState.DONE,
        WriteMarker(entry(100, "B", "b", "8"), entry(100, sequencer="7")),
    ),
    "the same moment, another marker: it is the one in the store": (
        entry(100), None, CreateFacts(at(100), "b"), B_NOW, RunState.DONE,
        WriteMarker(entry(100, "B", "b"), entry(100)),
    ),
    "the same moment, another marker: the row's is in the store": (
        entry(100), None, CreateFacts(at(100), "b"), A_NOW, RunState.DONE,
        Skip(Reason.SUPERSEDED, BeatenBy(None, "A")),
    ),
    "our own event is not beaten by a stray time": (
        entry(10**15), None, CreateFacts(at(100, "1", OURS), "b"), B_NOW, RunState.DONE,
        WriteMarker(Entry(at(100, "1", OURS), "B", "b"), entry(10**15)),
    ),
    "nor by a stray tombstone": (
        None, Tombstone(at(10**15)), CreateFacts(at(100, "1", OURS), "a"), A_NOW, None,
        WriteMarker(Entry(at(100, "1", OURS), "A", "a"), None),
    ),
    "our own event again, after a stray one moved the time": (
        entry(10**15), None, CreateFacts(at(100, "1", OURS), "a"), A_NOW, RunState.DONE,
        Skip(Reason.DUPLICATE, BeatenBy(10**15, "A")),
    ),
}
# fmt: on


@pytest.mark.parametrize("case", CREATES)
def test_create(case: str) -> None:
    row, tombstone, event, store, run, decision = CREATES[case]
    assert decide_create(row, tombstone, event, store, run) == decision


DeleteCase: TypeAlias = tuple[
    Entry | None, Tombstone | None, Stamp, StoreNow | None, bool, DeleteDecision
]
# fmt: off
DELETES: dict[str, DeleteCase] = {
    "no row": (None, None, at(100), None, False, KeepTombstone(Tombstone(at(100)))),
    "no row, a newer delete": (
        None, Tombstone(at(100)), at(101), None, False, KeepTombstone(Tombstone(at(101))),
    ),
    "no row, an older delete": (
        None, Tombstone(at(100)), at(99), None, False, Skip(Reason.STALE, BeatenBy(100, None)),
    ),
    "no row, the same delete": (
        None, Tombstone(at(100)), at(100), None, False,
        Skip(Reason.DUPLICATE, BeatenBy(100, None)),
    ),
    "no row, the same moment with a number": (
        None, Tombstone(at(100)), at(100, "7"), None, False, KeepTombstone(Tombstone(at(100, "7"))),
    ),
    "older than the row": (entry(100), None, at(99), None, False, Skip(Reason.STALE, ROW_WON)),
    "older than the row by its number": (
        entry(100, sequencer="8"), None, at(100, "7"), None, False, Skip(Reason.STALE, ROW_WON),
    ),
    "newer than the row": (
        entry(100), None, at(101), None, False, RemoveRow(entry(100), Tombstone(at(101))),
    ),
    "newer than the row, another object is there": (
        entry(100), None, at(101), StoreNow("a", "B"), False,
        RemoveRow(entry(100), Tombstone(at(101))),
    ),
    "newer than the row's time, but the row's object is there": (
        entry(100), None, at(101), A_NOW, False, Skip(Reason.OBJECT_PRESENT, ROW_WON),
    ),
    "newer by its number": (
        entry(100, sequencer="7"), None, at(100, "8"), None, False,
        RemoveRow(entry(100, sequencer="7"), Tombstone(at(100, "8"))),
    ),
    "numbered like the object, at a later time": (
        entry(100, sequencer="7"), None, at(101, "7"), None, False,
        RemoveRow(entry(100, sequencer="7"), Tombstone(at(101, "7"))),
    ),
    "the same moment, and nothing is there": (
        entry(100), None, at(100), None, False, RemoveRow(entry(100), Tombstone(at(100))),
    ),
    "the same moment, and the row's object is there": (
        entry(100), None, at(100), A_NOW, False, Skip(Reason.OBJECT_PRESENT, ROW_WON),
    ),
    "the same moment, and the row's bytes are there": (
        entry(100), None, at(100), StoreNow("a", None), False, Skip(Reason.OBJECT_PRESENT, ROW_WON),
    ),
    "the same moment, and other bytes are there": (
        entry(100), None, at(100), B_NOW, False, RemoveRow(entry(100), Tombstone(at(100))),
    ),
    "the tombstone never goes back": (
        entry(100), Tombstone(at(200)), at(150), None, False,
        RemoveRow(entry(100), Tombstone(at(200))),
    ),
    "from outside, and the built-in store has the object": (
        entry(100), None, at(101), B_NOW, True, Skip(Reason.OBJECT_PRESENT, BeatenBy(None, "B")),
    ),
    "from outside, and the built-in store has an object without a row": (
        None, None, at(101), B_NOW, True, Skip(Reason.OBJECT_PRESENT, BeatenBy(None, "B")),
    ),
    "from outside, and the built-in store has nothing": (
        entry(100), None, at(101), None, True, RemoveRow(entry(100), Tombstone(at(101))),
    ),
    "our own, and the built-in store has a later object": (
        entry(100), None, at(101, "2", OURS), B_NOW, True,
        RemoveRow(entry(100), Tombstone(at(101, "2", OURS))),
    ),
    "our own, after a stray event moved the row's time": (
        entry(10**15), None, at(101, "2", OURS), None, True,
        RemoveRow(entry(10**15), Tombstone(at(101, "2", OURS))),
    ),
    "our own again, after a stray event moved the time of a later upload": (
        entry(10**15), None, at(101, "2", OURS), A_NOW, True,
        Skip(Reason.OBJECT_PRESENT, BeatenBy(10**15, "A")),
    ),
    "our own in a bucket, where the store was not asked": (
        entry(10**15), None, at(101, "2", OURS), None, False,
        Skip(Reason.STALE, BeatenBy(10**15, "A")),
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
        (entry(99), at(100), False),
        (entry(101), at(100), False),
        (entry(100), at(100), True),
        (entry(100, sequencer="7"), at(100, "8"), True),
    ],
)
def test_the_store_need_only_be_asked_within_one_moment(
    row: Entry | None, event: Stamp, doubtful: bool
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
