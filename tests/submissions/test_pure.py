"""The decisions, as tables."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safelight.classification.base import ModelError, Undecodable
from safelight.errors import Unavailable
from safelight.infra.injected import iso
from safelight.infra.states import IllegalTransition, Phase
from safelight.objects.store import DamagedObject, StoreUnavailable
from safelight.sandbox.sandbox import SandboxDown, SandboxTimeout
from safelight.submissions.findings import Ask, Fail, Finding, Pass, Severity, judge
from safelight.submissions.lifecycle import ENDED, MACHINE, RejectionCode, SubmissionState
from safelight.submissions.recovery.decide import (
    AWAITED,
    STAGES,
    GiveUp,
    Leave,
    StartAgain,
    Tempo,
    Why,
    decide,
    next_attempt,
    next_tick,
    staleness,
)
from safelight.submissions.recovery.failures import FailureClass, chain, classify, in_words
from safelight.submissions.recovery.records import Budget, Inflight, Progress, hour_of, to_ms

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
NOW = 1_800_000_000_000
TEMPO = Tempo(3 * MINUTE, 5 * MINUTE, 5 * MINUTE, (5 * MINUTE, 10 * MINUTE, 20 * MINUTE), 3, 55)
SCANNING = SubmissionState.TIER1_SCANNING


# Lifecycle

LEGAL = {
    ("RECEIVED", "TIER1_SCANNING"), ("RECEIVED", "REJECTED"),
    ("TIER1_SCANNING", "TIER2_SCANNING"), ("TIER1_SCANNING", "REJECTED"),
    ("TIER2_SCANNING", "AWAITING_APPROVAL"), ("TIER2_SCANNING", "PUBLISHED"),
    ("TIER2_SCANNING", "REJECTED"),
    ("AWAITING_APPROVAL", "PUBLISHED"), ("AWAITING_APPROVAL", "REJECTED"),
    ("PUBLISHED", "WITHDRAWN"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), list(product(SubmissionState, SubmissionState)))
def test_only_these_moves_are_legal(before: SubmissionState, after: SubmissionState) -> None:
    if (before, after) in LEGAL:
        MACHINE.check(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} → {after}"):
            MACHINE.check(before, after)


def test_every_state_is_somewhere() -> None:
    assert set(MACHINE.moves) == set(SubmissionState)
    assert SubmissionState.in_phase(Phase.WAITING) == (SubmissionState.AWAITING_APPROVAL,)
    assert set(STAGES) == set(SubmissionState.in_phase(Phase.UNDER_WAY))
    assert set(SubmissionState.in_phase(Phase.OVER)) == {SubmissionState.PUBLISHED, *ENDED}


# Findings


def found(rule: str, severity: Severity) -> Finding:
    return Finding(rule, severity, f"{rule} says so")


def test_the_worst_finding_decides() -> None:
    info, review = found("a", Severity.INFO), found("b", Severity.REVIEW)
    first, second = found("c", Severity.BLOCK), found("d", Severity.BLOCK)
    codes = {"c": RejectionCode.MALFORMED, "d": RejectionCode.POLICY}
    assert judge([], codes) == Pass()
    assert judge([info], codes) == Pass()
    assert judge([info, review], codes) == Ask((review,))
    verdict = judge([info, review, first, second], codes)
    assert isinstance(verdict, Fail)
    assert verdict.rejection.to_json() == {"code": "MALFORMED", "message": "c says so"}
    assert Finding.load(first.to_json()) == first


# Failures


def caused(*errors: BaseException) -> BaseException:
    """The first is outermost."""
    for outer, inner in pairwise(errors):
        outer.__cause__ = inner
    return errors[0]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "SCAN_TIMEOUT"),
        (SandboxTimeout(), "SCAN_TIMEOUT"),
        (RuntimeError("the operation timed out"), "SCAN_TIMEOUT"),
        (RuntimeError("deadline exceeded"), "SCAN_TIMEOUT"),
        (ModelError("no answer"), "MODEL_ERROR"),
        (Undecodable(), "MODEL_ERROR"),
        (RuntimeError("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT"), "MODEL_ERROR"),
        (StoreUnavailable(), "STORAGE_ERROR"),
        (DamagedObject(), "STORAGE_ERROR"),
        (Unavailable(), "STORAGE_ERROR"),
        (OSError(28, "No space left on device"), "STORAGE_ERROR"),
        (FileNotFoundError(2, "gone"), "STORAGE_ERROR"),
        (ConnectionResetError(), "NETWORK_ERROR"),
        (ConnectionRefusedError(), "NETWORK_ERROR"),
        (RuntimeError("network is unreachable"), "NETWORK_ERROR"),
        (SandboxDown(), "UNKNOWN"),
        (ValueError("what?"), "UNKNOWN"),
        (KeyError("x"), "UNKNOWN"),
        (Exception(), "UNKNOWN"),
        # The innermost known cause decides, whatever is wrapped around it.
        (caused(RuntimeError("tier 2 failed"), TimeoutError()), "SCAN_TIMEOUT"),
        (caused(ModelError("no answer"), ConnectionResetError()), "NETWORK_ERROR"),
        (caused(StoreUnavailable(), ConnectionRefusedError()), "NETWORK_ERROR"),
        (caused(Exception("a"), Exception("b"), ModelError("c")), "MODEL_ERROR"),
        (caused(ModelError("c"), KeyError("x")), "MODEL_ERROR"),
        (ExceptionGroup("several", [ValueError(), TimeoutError()]), "SCAN_TIMEOUT"),
    ],
)
def test_errors_are_classified(error: BaseException, kind: str) -> None:
    assert classify(error) == kind


@pytest.mark.parametrize(("hidden", "kind"), [(False, "NETWORK_ERROR"), (True, "UNKNOWN")])
def test_an_error_met_while_handling_another_counts_too(hidden: bool, kind: str) -> None:
    error = ValueError("while cleaning up")
    error.__context__ = ConnectionResetError()
    error.__suppress_context__ = hidden
    assert classify(error) == kind


def test_the_words_of_an_error_can_be_kept() -> None:
    assert in_words(ValueError("a\0b\ud800c\nmore")) == "abc"
    assert in_words(ValueError()) == "ValueError"
    assert in_words(FileExistsError(17, "File exists", "/srv/blobs/8f")) == "File exists."
    assert in_words(ModelError("The model is out of order.")) == "The model is out of order."
    assert len(in_words(ValueError("x" * 9999))) == 500


def test_a_ring_of_causes_ends() -> None:
    one, other = ValueError(), KeyError()
    one.__cause__, other.__cause__ = other, one
    assert len(list(chain(one))) == 2
    assert classify(one) is FailureClass.UNKNOWN


# Inflight and budget


def an_inflight(age: int = 0, error: FailureClass | None = None) -> Inflight:
    record = Inflight("sub_1", 1, SCANNING, NOW - age, NOW - age)
    return record.failed(error, "so it was", NOW) if error else record


def test_a_record_says_so_when_something_was_away() -> None:
    value = AWAY.to_json()
    assert value["error"]["away"] is True
    assert Inflight.load(value) == AWAY


@pytest.mark.parametrize("error", [None, FailureClass.MODEL_ERROR])
def test_the_inflight_record_survives_being_written(error: FailureClass | None) -> None:
    record = an_inflight(1234, error).entering(SubmissionState.TIER2_SCANNING, NOW - 1)
    value = record.to_json()
    assert Inflight.load(value) == record
    assert {"stage", "stageStartedAt", "startedAt", "submissionId", "attempt"} <= set(value)
    assert ("error" in value) is (error is not None)
    if error:
        assert set(value["error"]) == {"classification", "message", "at"}


AWAY = an_inflight(6 * MINUTE).failed(FailureClass.STORAGE_ERROR, "so it was", NOW, away=True)


def test_entering_a_stage_keeps_the_start() -> None:
    record = an_inflight(5000).entering(SubmissionState.TIER2_SCANNING, NOW)
    assert (record.started_at, record.stage_started_at) == (NOW - 5000, NOW)


def test_the_budget_waits_five_ten_and_twenty_minutes() -> None:
    budget = Budget()
    for count, wait in ((1, 5), (2, 10), (3, 20), (4, 20)):
        budget = budget.spend(NOW, TEMPO.backoff_ms)
        assert budget == Budget(count, NOW, NOW + wait * MINUTE)
        assert Budget.load(budget.to_json()) == budget


def test_waits_have_the_same_pauses_and_leave_the_count() -> None:
    budget = Budget(2, NOW, NOW)
    for waits, pause in ((1, 5), (2, 10), (3, 20), (4, 20)):
        budget = budget.wait(NOW, TEMPO.backoff_ms)
        assert budget == Budget(2, NOW, NOW + pause * MINUTE, waits)
        assert Budget.load(budget.to_json()) == budget
    assert budget.spend(NOW, TEMPO.backoff_ms) == Budget(3, NOW, NOW + 20 * MINUTE, 4)
    earlier = {"count": 2, "lastRetryAt": None, "nextRetryAfter": None}
    assert Budget.load(earlier) == Budget(2)


def test_an_old_marker_counts_as_one_and_only_without_a_budget() -> None:
    assert Budget.load(None, None) == Budget()
    assert Budget.load(None, True) == Budget(1)
    assert Budget.load(None, {"at": "2026-01-01"}) == Budget(1)
    assert Budget.load({"count": 0}, True) == Budget(0)
    assert Budget.load({"count": 2, "lastRetryAt": None, "nextRetryAfter": None}, True) == Budget(2)


# Recovery


def progress(
    state: SubmissionState = SCANNING,
    age: int = 6 * MINUTE,
    *,
    waiting: bool = False,
    inflight: Inflight | None = None,
    budget: Budget = Budget(),  # noqa: B008 - frozen
) -> Progress:
    return Progress(state, NOW - age, waiting, budget, inflight)


FAILED = an_inflight(6 * MINUTE, FailureClass.MODEL_ERROR)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Something is away: the same pauses, and nothing is spent, for a day
        (progress(inflight=AWAY), StartAgain(Budget(0, NOW, NOW + 5 * MINUTE, 1), None)),
        (
            progress(age=DAY, inflight=AWAY, budget=Budget(3, NOW - 9, NOW, 7)),
            StartAgain(Budget(3, NOW, NOW + 20 * MINUTE, 8), None),
        ),
        (
            progress(age=DAY + 1, inflight=AWAY, budget=Budget(2, NOW - 9, NOW, 70)),
            StartAgain(Budget(3, NOW, NOW + 20 * MINUTE, 70), None),
        ),
        (progress(age=DAY + 1, inflight=AWAY, budget=Budget(3, waits=70)), GiveUp(None)),
        (
            progress(inflight=AWAY, budget=Budget(0, NOW - 1, NOW + 1, 1)),
            Leave(Why.TOO_SOON),
        ),
        (progress(inflight=AWAY, waiting=True), Leave(Why.IN_LINE)),
        # Its record is gone before the pause is over
        (
            progress(budget=Budget(3, NOW - 9, NOW, 1)),
            StartAgain(Budget(3, NOW, NOW + 10 * MINUTE, 2), FailureClass.UNKNOWN),
        ),
        # It waited once, and then failed by itself
        (progress(inflight=FAILED, budget=Budget(3, NOW - 9, NOW, 5)), GiveUp(None)),
        # It moved on
        (progress(SubmissionState.PUBLISHED), Leave(Why.MOVED_ON)),
        (progress(SubmissionState.REJECTED), Leave(Why.MOVED_ON)),
        (progress(SubmissionState.WITHDRAWN), Leave(Why.MOVED_ON)),
        (progress(SubmissionState.AWAITING_APPROVAL, 999 * MINUTE), Leave(Why.MOVED_ON)),
        (progress(age=5 * MINUTE), Leave(Why.MOVED_ON)),
        (progress(age=0), Leave(Why.MOVED_ON)),
        # It waits, or somebody is at work
        (progress(waiting=True), Leave(Why.IN_LINE)),
        (progress(SubmissionState.RECEIVED, 999 * MINUTE, waiting=True), Leave(Why.IN_LINE)),
        (progress(waiting=True, budget=Budget(3)), Leave(Why.IN_LINE)),
        (progress(inflight=an_inflight(4 * MINUTE)), Leave(Why.AT_WORK)),
        (progress(inflight=an_inflight(5 * MINUTE - 1)), Leave(Why.AT_WORK)),
        # Not yet
        (progress(inflight=FAILED, budget=Budget(1, NOW - 1, NOW + 1)), Leave(Why.TOO_SOON)),
        (progress(inflight=FAILED, budget=Budget(3, NOW - 1, NOW + 1)), Leave(Why.TOO_SOON)),
        # Clocks differ a little
        (progress(age=-MINUTE), Leave(Why.MOVED_ON)),
        (progress(inflight=an_inflight(-MINUTE)), Leave(Why.AT_WORK)),
        # A wrong clock's times say nothing, or it would stand still until they come
        (
            progress(
                age=-31 * DAY, inflight=an_inflight(-31 * DAY), budget=Budget(1, NOW, NOW + DAY)
            ),
            StartAgain(Budget(2, NOW, NOW + 10 * MINUTE), FailureClass.SCAN_TIMEOUT),
        ),
        # Again: what the consumer counted is not counted twice
        (progress(inflight=FAILED), StartAgain(Budget(1, NOW, NOW + 5 * MINUTE), None)),
        (
            progress(age=5 * MINUTE + 1, inflight=FAILED),
            StartAgain(Budget(1, NOW, NOW + 5 * MINUTE), None),
        ),
        (
            progress(inflight=FAILED, budget=Budget(1, NOW - 9, NOW)),
            StartAgain(Budget(2, NOW, NOW + 10 * MINUTE), None),
        ),
        (
            progress(inflight=FAILED, budget=Budget(2)),
            StartAgain(Budget(3, NOW, NOW + 20 * MINUTE), None),
        ),
        (
            progress(inflight=an_inflight(5 * MINUTE)),
            StartAgain(Budget(1, NOW, NOW + 5 * MINUTE), FailureClass.SCAN_TIMEOUT),
        ),
        (
            progress(SubmissionState.RECEIVED),
            StartAgain(Budget(1, NOW, NOW + 5 * MINUTE), FailureClass.UNKNOWN),
        ),
        # Enough
        (progress(inflight=FAILED, budget=Budget(3)), GiveUp(None)),
        (progress(inflight=FAILED, budget=Budget(4)), GiveUp(None)),
        (progress(inflight=FAILED, budget=Budget(3, NOW - 9, NOW)), GiveUp(None)),
        (
            progress(inflight=an_inflight(6 * MINUTE), budget=Budget(3)),
            GiveUp(FailureClass.SCAN_TIMEOUT),
        ),
    ],
)
def test_recovery_decides(seen: Progress, expected: Leave | StartAgain | GiveUp) -> None:
    assert decide(seen, NOW, TEMPO) == expected


histories = st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=60)


@given(histories)
def test_however_outages_and_failures_mix(history: list[tuple[bool, int]]) -> None:
    """Each entry: whether something was away, and how many minutes later recovery looks. Failures of
    its own are counted and nothing else is, until a day is over; three are the most."""
    now, since, budget, own = NOW, NOW, Budget(), 0
    for away, minutes in history:
        now += minutes * MINUTE
        run = Inflight("sub_1", 1, SCANNING, now, now)
        record = run.failed(FailureClass.STORAGE_ERROR, "", now, away=away)
        decision = decide(Progress(SCANNING, since, False, budget, record), now, TEMPO)
        waits = away and now - since <= DAY
        match decision:
            case Leave():
                due = (budget.next_retry_after or 0) > now
                assert due or now - since <= TEMPO.stuck_after_ms
                continue
            case GiveUp():
                assert (waits, own) == (False, TEMPO.retries)
                return
            case StartAgain(budget):
                own += not waits
                assert budget.count == own <= TEMPO.retries
                assert 5 * MINUTE <= (budget.next_retry_after or 0) - now <= 20 * MINUTE


# Staleness


@pytest.mark.parametrize("state", list(SubmissionState))
@pytest.mark.parametrize("age", [0, MINUTE, 3 * MINUTE, 3 * MINUTE + 1, 60 * MINUTE])
def test_a_stage_is_stale_after_three_minutes_and_only_a_stage(
    state: SubmissionState, age: int
) -> None:
    stale = staleness(progress(state, age), NOW, TEMPO)
    assert (stale is not None) is (state.under_way and age > 3 * MINUTE)
    if stale:
        told = stale.to_json()
        assert told["stale"] is True
        assert (told["staleStage"], to_ms(told["staleSince"])) == (state, NOW - age)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (SubmissionState.RECEIVED, "waiting for its first check for 4 minutes"),
        (SubmissionState.TIER1_SCANNING, "in the check of the file for 4 minutes"),
        (SubmissionState.TIER2_SCANNING, "in the check of its content for 4 minutes"),
    ],
)
def test_the_message_is_plain_words(state: SubmissionState, words: str) -> None:
    stale = staleness(progress(state, 4 * MINUTE), NOW, TEMPO)
    assert stale
    assert words in stale.message
    assert "tried again automatically at" in stale.message
    waiting = staleness(progress(state, 4 * MINUTE, waiting=True), NOW, TEMPO)
    assert waiting
    assert (waiting.to_json()["nextAttemptAt"], "goes on" in waiting.message) == (None, True)
    over = staleness(progress(state, 4 * MINUTE, budget=Budget(3)), NOW, TEMPO)
    assert over
    assert (over.next_attempt, "No automatic attempt is left" in over.message) == (None, True)


@pytest.mark.parametrize("kind", list(FailureClass))
def test_people_hear_what_is_waited_for(kind: FailureClass) -> None:
    record = an_inflight(6 * MINUTE).failed(kind, "http://10.0.0.7/ refused", NOW, away=True)
    seen = progress(age=5 * 60 * MINUTE, inflight=record, budget=Budget(3, waits=2))
    stale = staleness(seen, NOW, TEMPO)
    assert stale
    assert f"It waits for {AWAITED[kind]}" in stale.message
    assert "for 5 hours" in stale.message
    assert "10.0.0.7" not in stale.message
    assert stale.next_attempt == next_tick(NOW, 5 * MINUTE)
    assert iso(stale.next_attempt)[11:16] in stale.message
    over = staleness(progress(age=DAY + 1, inflight=record, budget=Budget(3)), NOW, TEMPO)
    assert over
    assert (over.next_attempt, "It waits" in over.message) == (None, False)


def test_the_next_attempt_is_when_recovery_looks_and_may() -> None:
    tick = next_tick(NOW, 5 * MINUTE)
    assert next_attempt(progress(SCANNING, 10 * MINUTE), NOW, TEMPO) == tick
    young = next_attempt(progress(SCANNING, 4 * MINUTE), tick - 1, TEMPO)
    assert young is not None
    assert young % (5 * MINUTE) == 0
    assert young > NOW - 4 * MINUTE + 5 * MINUTE
    later = Budget(1, NOW, NOW + 7 * MINUTE)
    assert next_attempt(progress(SCANNING, 9 * MINUTE, budget=later), NOW, TEMPO) == next_tick(
        NOW + 7 * MINUTE, 5 * MINUTE
    )


def test_hours_and_ticks() -> None:
    assert hour_of(7_199_999) == 3_600_000
    assert [next_tick(moment, 300) for moment in (0, 1, 300, 301)] == [0, 300, 300, 600]
