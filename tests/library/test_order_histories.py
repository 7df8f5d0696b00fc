"""Every order and number of deliveries against the truth of a store."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safelight.library.entry import RunStatus
from safelight.library.order import (
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
    decide_create,
    decide_delete,
    delete_is_doubtful,
    is_newer,
)
from safelight.objects.events import OURS


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
    row: Mark | None = None
    tombstone: Tombstone | None = None
    runs: dict[str, RunStatus] = field(default_factory=dict)

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
                self.runs[after.idempotency_key] = RunStatus.PENDING
            case MoveTime(after):
                assert self.row is not None
                assert is_newer(after.stamp, self.row.stamp)
                assert replace(after, stamp=self.row.stamp) == self.row
                self.row = after
            case StartRun(after):
                assert after == self.row
                assert run in {None, RunStatus.FAILED, RunStatus.DROPPED}, (
                    "a second run beside a good one"
                )
                self.runs[after.idempotency_key] = RunStatus.PENDING
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
ENDS = st.sampled_from(list(RunStatus))


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


@settings(max_examples=250, deadline=None)
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


@settings(max_examples=120, deadline=None)
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
    lambda time, facts, etag: Told(
        -1, Stamp(time, None, "r2"), CreateFacts(Stamp(time, None, "r2"), etag) if facts else None
    ),
    st.sampled_from([0, 1_000_000, 1_000_300, 1_001_500, 10**15]),
    st.booleans(),
    st.sampled_from([None, "x", "y"]),
)


@settings(max_examples=120, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(STEPS, min_size=1, max_size=5), st.booleans())
def test_a_failed_run_is_started_again_once(
    data: st.DataObject, steps: list[Step], whole_seconds: bool
) -> None:
    ending_in_upload = [*steps, Step("x", 0, says_etag=True)]
    history = history_of(ending_in_upload, whole_seconds=whole_seconds)
    library = play(data, history, "doubtful")
    assert library.row is not None
    library.runs[library.row.idempotency_key] = RunStatus.FAILED
    last, operations = history.told[-1], len(history.states) - 1
    assert isinstance(library.hear(last, operations), StartRun)
    assert isinstance(again := library.hear(last, operations), Skip)
    assert again.reason is SkipReason.DUPLICATE


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
