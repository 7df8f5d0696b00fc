"""The decisions as tables, and every order of deliveries against the truth of a store."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


# A store, its history, and a library that hears of it


@dataclass(frozen=True)
class Told:
    """An event of one operation, with as much as the source says."""

    operation: int
    stamp: Stamp
    facts: CreateFacts | None  # none: a delete


@dataclass
class History:
    """What was done to one name; `states[n]` is the store after n operations."""

    told: list[Told] = field(default_factory=list)
    states: list[StoreNow | None] = field(default_factory=lambda: [None])


@dataclass(frozen=True)
class Step:
    what: str  # x, y: bytes that are put; delete; again: the object is announced once more
    wait: int
    says_sequencer: bool = False
    says_etag: bool = False
    says_marker: bool = False


def history_of(
    steps: Iterable[Step], *, whole_seconds: bool = False, source: str = "s3"
) -> History:
    history, now = History(), 1_000_000
    for number, step in enumerate(steps):
        now += step.wait
        time = now // 1000 * 1000 + 999 if whole_seconds else now
        # Some are shortened, as sequencers can be: zeros at the end do not count.
        sequencer = f"{number + 1:04X}0".rstrip("0") if step.says_sequencer else None
        after = _after(history.states[-1], step.what, number)
        history.states.append(after)
        stamp, facts = Stamp(time, sequencer, source), None
        if after is not None and step.what != "delete":
            facts = CreateFacts(
                stamp,
                after.etag if step.says_etag else None,
                after.idempotency_key if step.says_marker else None,
            )
        if after is not None or step.what == "delete":
            history.told.append(Told(number, stamp, facts))
    return history


def _after(before: StoreNow | None, what: str, number: int) -> StoreNow | None:
    if what == "again":
        return before
    return None if what == "delete" else StoreNow(what, f"upload-{number}")


@dataclass
class Library:
    """Does what the decisions say, and checks on the way what must never happen."""

    history: History
    asks: str  # of deletes: always, doubtful or never
    built_in: bool = False
    row: Entry | None = None
    tombstone: Tombstone | None = None
    runs: dict[str, RunState] = field(default_factory=dict)

    def hear(self, told: Told, operations: int) -> CreateDecision | DeleteDecision:
        store = self.history.states[operations]
        if told.facts is not None:
            return self._create(told.facts, store)
        return self._delete(told, store)

    def _create(self, facts: CreateFacts, store: StoreNow | None) -> CreateDecision:
        run = self.runs.get(self.row.idempotency_key) if self.row else None
        decision = decide_create(self.row, self.tombstone, facts, store, run)
        match decision:
            case WriteMarker(after):
                assert store is not None, "a row for an object that is gone"
                assert after.idempotency_key == store.idempotency_key
                self.row = after
                self.runs[after.idempotency_key] = RunState.PENDING
            case MoveTime(after):
                assert self.row is not None
                assert is_newer(after.stamp, self.row.stamp)
                assert replace(after, stamp=self.row.stamp) == self.row
                self.row = after
            case StartRun(after):
                assert after == self.row
                assert run in {None, RunState.FAILED}, "a second run beside a good one"
                self.runs[after.idempotency_key] = RunState.PENDING
        return decision

    def _delete(self, told: Told, store: StoreNow | None) -> DeleteDecision:
        asked = self.asks == "always" or (
            self.asks == "doubtful" and delete_is_doubtful(self.row, told.stamp)
        )
        decision = decide_delete(
            self.row, self.tombstone, told.stamp, store if asked else None, built_in=self.built_in
        )
        if isinstance(decision, RemoveRow):
            self._check_removal(store)
            self.row = None
        if isinstance(decision, RemoveRow | KeepTombstone):
            before = self.tombstone
            assert before is None or not is_newer(before.stamp, decision.tombstone.stamp)
            self.tombstone = decision.tombstone
        return decision

    def _check_removal(self, store: StoreNow | None) -> None:
        """An event without a marker can give a row too early a time, and a delete that does not ask
        the store then takes the row away until the upload's own event comes."""
        assert self.row is not None
        all_say = all(
            told.facts is None or told.facts.idempotency_key for told in self.history.told
        )
        if self.asks == "always" or all_say:
            assert store is None or store.idempotency_key != self.row.idempotency_key

    def check_end(self) -> None:
        truth = self.history.states[-1]
        held = self.row.idempotency_key if self.row else None
        assert held == (truth.idempotency_key if truth else None)
        assert self.row is None or self.row.idempotency_key in self.runs


TIMES = st.sampled_from([0, 0, 0, 1, 300, 700, 1000, 2500])
WHATS = st.sampled_from(["x", "x", "y", "delete", "delete", "again"])
STEPS = st.builds(Step, WHATS, TIMES, st.booleans(), st.booleans(), st.booleans())
ENDS = st.sampled_from([RunState.PENDING, RunState.RUNNING, RunState.DONE, RunState.FAILED])


@st.composite
def deliveries(draw: st.DrawFn, history: History) -> list[tuple[int, Told]]:
    """Each event one to three times, each time at or after its operation, in any order."""
    last = len(history.states) - 1
    drawn = [
        (operations, luck, told)
        for told in history.told
        for operations, luck in draw(
            st.lists(
                st.tuples(st.integers(told.operation + 1, last), st.integers(0, 20)),
                min_size=1,
                max_size=3,
            )
        )
    ]
    drawn.sort(key=lambda one: one[:2])
    return [(operations, told) for operations, _, told in drawn]


def play(data: st.DataObject, history: History, asks: str) -> Library:
    library = Library(history, asks)
    for operations, told in data.draw(deliveries(history)):
        library.hear(told, operations)
        if library.row and data.draw(st.booleans()):
            library.runs[library.row.idempotency_key] = data.draw(ENDS)
    library.check_end()
    return library


@settings(max_examples=400, deadline=None)
@given(
    st.data(),
    st.lists(STEPS, min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from(["always", "doubtful"]),
)
def test_every_order_ends_in_the_stores_truth(
    data: st.DataObject, steps: list[Step], whole_seconds: bool, asks: str
) -> None:
    play(data, history_of(steps, whole_seconds=whole_seconds), asks)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(STEPS, min_size=1, max_size=6), st.booleans())
def test_deletes_need_no_store_where_events_can_be_told_apart(
    data: st.DataObject, steps: list[Step], numbered: bool
) -> None:
    """By sequencers within one second, or by times that differ."""
    apart = [
        replace(step, says_sequencer=True) if numbered else replace(step, wait=step.wait + 1)
        for step in steps
    ]
    play(data, history_of(apart, whole_seconds=numbered), "never")


STRAYS = st.builds(
    lambda time, facts, etag: Told(-1, at(time), CreateFacts(at(time), etag) if facts else None),
    st.sampled_from([0, 1_000_000, 1_000_300, 1_001_500, 10**15]),
    st.booleans(),
    st.sampled_from([None, "x", "y"]),
)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(STEPS, min_size=1, max_size=5), st.lists(STRAYS, max_size=4))
def test_stray_events_from_outside_do_not_mislead_the_built_in_store(
    data: st.DataObject, steps: list[Step], strays: list[Told]
) -> None:
    own = [replace(step, wait=step.wait + 1, says_sequencer=True, says_etag=True, says_marker=True) for step in steps]  # fmt: skip
    history = history_of(own, source=OURS)
    last = len(history.states) - 1
    stray = [(data.draw(st.integers(0, last)), told) for told in strays]
    library = Library(history, "always", built_in=True)
    order = data.draw(st.permutations([*data.draw(deliveries(history)), *stray]))
    for operations, told in sorted(order, key=lambda one: one[0]):
        library.hear(told, operations)
    library.check_end()


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(STEPS, min_size=1, max_size=5), st.booleans())
def test_a_failed_run_is_started_again_once(
    data: st.DataObject, steps: list[Step], whole_seconds: bool
) -> None:
    ending_in_upload = [*steps, Step("x", 0, says_etag=True)]
    history = history_of(ending_in_upload, whole_seconds=whole_seconds)
    library = play(data, history, "doubtful")
    assert library.row is not None
    library.runs[library.row.idempotency_key] = RunState.FAILED
    last, operations = history.told[-1], len(history.states) - 1
    assert isinstance(library.hear(last, operations), StartRun)
    assert isinstance(again := library.hear(last, operations), Skip)
    assert again.reason is Reason.DUPLICATE


@pytest.mark.parametrize("says_sequencer", [False, True])
@pytest.mark.parametrize("says_etag", [False, True])
@pytest.mark.parametrize("says_marker", [False, True])
@pytest.mark.parametrize("wait", [0, 1])
def test_every_order_of_short_histories(
    wait: int, says_sequencer: bool, says_etag: bool, says_marker: bool
) -> None:
    """All of them, each event once and one of them twice, told when everything has happened."""
    for whats in itertools.product(["x", "y", "delete"], repeat=3):
        steps = [Step(what, wait, says_sequencer, says_etag, says_marker) for what in whats]
        history = history_of(steps, whole_seconds=False)
        for twice in history.told:
            _play_all(history, [*history.told, twice])


def _play_all(history: History, told: Sequence[Told]) -> None:
    for order in itertools.permutations(told):
        library = Library(history, "doubtful")
        for one in order:
            library.hear(one, len(history.states) - 1)
        library.check_end()
