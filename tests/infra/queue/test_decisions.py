"""The pure part: verdicts, backoff, registries, slots."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.queue.crew import Number, a_kind, succeed
from safelight.errors import ConfigurationError, Forbidden, Unavailable
from safelight.infra.failpoints import FailpointError
from safelight.infra.queue.handlers import Handler, matched
from safelight.infra.queue.jobs import (
    Backoff,
    Dead,
    Done,
    Failure,
    Job,
    JobId,
    JobKind,
    LeaseLost,
    Lost,
    PutBack,
    Retry,
    Verdict,
    by_name,
)
from safelight.infra.queue.ledger import outcome, outcome_of
from safelight.infra.queue.slots import Opening, Slots

KIND = a_kind(retry=Backoff(attempts=3, first=1.0, cap=8.0))
ERROR = Failure("X", "y")


def job(attempt: int = 1, job_id: int = 1) -> Job[Number]:
    return Job(JobId(job_id), KIND, "acme", {"n": 1}, 1, attempt)


@pytest.mark.parametrize(
    ("attempt", "verdict", "expected"),
    [
        (1, Done(), Done()),
        (1, Done(already=True), Done(already=True)),
        (1, Dead(ERROR), Dead(ERROR)),
        (1, Retry(ERROR, after=0.25), PutBack(0.25, ERROR)),
        (2, Retry(ERROR, after=-3), PutBack(0.0, ERROR)),
        (3, Retry(ERROR, after=0.25), Dead(ERROR)),
        (9, Retry(ERROR), Dead(ERROR)),
    ],
)
def test_what_becomes_of_a_job(attempt: int, verdict: Verdict, expected: object) -> None:
    assert outcome(job(attempt), verdict) == expected


@pytest.mark.parametrize("after", [float("nan"), float("-inf"), float("inf"), 1e300])
def test_no_wait_is_beyond_what_the_database_can_count(after: float) -> None:
    again = outcome(job(), Retry(ERROR, after=after))
    assert isinstance(again, PutBack)
    assert 0 <= again.after < 1e9


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("a\0b"), Failure("ValueError", "a\\0b")),
        (ValueError("\udcff"), Failure("ValueError", "\\udcff")),
        (ValueError(), Failure("ValueError", "ValueError")),
        (Speechless(), Failure("Speechless", "Speechless")),
        (Failure("\0", "x" * 5000), Failure("\\0", "x" * 2000)),
    ],
)
def test_a_failure_can_always_be_kept(error: Exception | Failure, failure: Failure) -> None:
    assert Failure.of(error) == failure


INSIDE = "could not connect to db.internal:5432 from /srv/safelight"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileExistsError(17, "File exists", "/srv/blobs/8f"), "File exists."),
        (ConnectionRefusedError(111, f"Connect call failed {INSIDE}"), "Connection refused."),
        (OSError(f"Multiple exceptions: {INSIDE}"), "OSError"),
        (TimeoutError(INSIDE), "TimeoutError"),
        (asyncpg.InvalidAuthorizationSpecificationError(INSIDE), "InvalidAuthorizationSpec"),
        (httpx.ConnectError(INSIDE), "ConnectError"),
        (Unavailable(INSIDE), "database cannot be reached"),
        (ConfigurationError(INSIDE), "A setting has a value"),
    ],
)
def test_where_our_things_are_is_for_operators(error: Exception, words: str) -> None:
    """Whatever went wrong: the work's owners hear what it was, the log where."""
    failure = Failure.of(error)
    assert failure.message.startswith(words) or words in failure.message
    assert "internal" not in json.dumps(failure.to_json())
    assert "/srv" not in json.dumps(failure.to_json())
    assert failure.in_full.message == str(error)


def test_what_is_wrong_with_a_request_or_in_our_own_words_is_told_as_it_is() -> None:
    for error in (Forbidden("Not yours."), ValueError("a bug"), FailpointError("reached")):
        assert Failure.of(error).message == str(error)


def test_the_systems_own_jobs_say_all_they_know() -> None:
    """Nobody but operators sees them."""
    wrong = FileExistsError(17, "File exists", "/srv/blobs/8f")
    for organization, told in (("", True), ("acme", False)):
        again = outcome(replace(job(), organization=organization), Retry(wrong))
        assert isinstance(again, PutBack)
        assert again.failure
        assert ("/srv" in again.failure.message) is told


def test_a_handler_that_returns_no_verdict_is_retried() -> None:
    again = outcome(job(), None)
    assert isinstance(again, PutBack)
    assert again.failure
    assert again.failure.code == "TypeError"


@given(st.integers(1, 2000), st.integers(1, 2**62))
def test_waits_double_up_to_the_cap_with_jitter(attempt: int, job_id: int) -> None:
    patient = a_kind(retry=Backoff(attempts=10_000, first=1.0, cap=300.0))
    again = outcome(Job(JobId(job_id), patient, "", {}, 1, attempt), Retry(ERROR))
    assert isinstance(again, PutBack)
    longest = min(300, 2 ** (attempt - 1))
    assert longest / 2 <= again.after <= longest


def test_jitter_spreads_neighbours() -> None:
    waits = {round(wait_of(number).after, 2) for number in range(1000)}
    assert len(waits) > 40


def wait_of(job_id: int) -> PutBack:
    again = outcome(job(1, job_id), Retry(ERROR))
    assert isinstance(again, PutBack)
    return again


async def ran(how: Any) -> "asyncio.Task[Verdict]":
    async def handle() -> Verdict:
        if isinstance(how, BaseException):
            raise how
        return how  # type: ignore[no-any-return]

    task = asyncio.create_task(handle())
    await asyncio.wait([task])
    return task


async def test_a_raised_error_is_a_retry_with_its_code() -> None:
    again = outcome_of(job(), await ran(Forbidden("No.")), stopping=False)
    assert isinstance(again, PutBack)
    assert again.failure == Failure("FORBIDDEN", "No.")


async def test_a_cancelled_job_goes_back_without_a_failure() -> None:
    cancelled = await ran(asyncio.CancelledError())
    assert outcome_of(job(3), cancelled, stopping=True) == PutBack(0.0, None)
    assert outcome_of(job(3), cancelled, stopping=False) == PutBack(1.0, None)


async def test_a_lost_lease_is_nobodys_failure() -> None:
    assert outcome_of(job(3), await ran(LeaseLost()), stopping=False) == Lost()
    with pytest.raises(LeaseLost):
        job().ended(mine=False)
    with pytest.raises(LeaseLost):
        job().ended(mine=None)
    assert job().ended(mine=True) == Done(already=True)


@dataclass(frozen=True)
class Whole:
    pixels: bytes


@dataclass
class Changeable:
    n: int


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [(Whole, "not pixels"), (Changeable, "frozen dataclass"), (dict, "frozen dataclass")],
)
def test_a_payload_holds_ids_only(payload: type, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        JobKind("test.bad", payload=payload)


@pytest.mark.parametrize("options", [{"limit": 0}, {"retry": Backoff(attempts=0)}])
def test_a_kind_must_be_able_to_run(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="at least once"):
        a_kind(**options)


def test_kinds_and_handlers_must_match() -> None:
    one, two = a_kind("one"), a_kind("two")
    kinds = by_name([one, two])
    assert matched(kinds, [Handler(one, succeed), Handler(two, succeed)]).keys() == kinds.keys()
    for handlers, complaint in (
        ([Handler(one, succeed)], "No handler for job kind two"),
        ([Handler(one, succeed), Handler(one, succeed)], "two handlers"),
        ([Handler(one, succeed), Handler(a_kind("three"), succeed)], "three .* nobody declared"),
        ([Handler(one, succeed), Handler(a_kind("two"), succeed)], "two .* nobody declared"),
    ):
        with pytest.raises(ConfigurationError, match=complaint):
            matched(kinds, handlers)
    with pytest.raises(ConfigurationError, match="Two job kinds are called one"):
        by_name([one, a_kind("one")])


def test_slots_are_asked_for_once_per_wake_up() -> None:
    slots = Slots({"a": 2, "b": 1})
    assert slots.openings() == []
    slots.want(["a", "unknown"])
    assert slots.openings() == [Opening("a", 2, "")]
    assert slots.openings() == []


def test_a_full_claim_asks_again_and_a_short_one_does_not() -> None:
    slots = Slots({"a": 2})
    slots.want(["a"])
    openings = slots.openings()
    slots.claimed(openings, {"a": ["x", "y"]})
    assert slots.open("a")
    slots.openings()
    slots.claimed(openings, {"a": ["x"]})
    assert not slots.open("a")


def test_a_wake_up_during_a_claim_is_not_forgotten() -> None:
    slots = Slots({"a": 2})
    slots.want(["a"])
    openings = slots.openings()
    slots.want(["a"])
    slots.claimed(openings, {})
    assert slots.open("a")


def test_a_kind_without_free_slots_stays_wanted() -> None:
    slots = Slots({"a": 1})
    slots.want(["a"])
    assert slots.take("a", "x")
    assert not slots.take("a", "x")
    assert slots.openings() == []
    slots.release("a", "x")
    assert slots.openings() == [Opening("a", 1, "")]


@pytest.mark.parametrize(
    ("after", "served", "last"),
    [("", ["a", "b"], "b"), ("b", ["c", "a"], "a"), ("b", ["c", "d"], "d"), ("b", ["b"], "b")],
)
def test_the_next_claim_begins_after_the_last_one_served(
    after: str, served: list[str], last: str
) -> None:
    slots = Slots({"a": 2})
    slots.claimed([Opening("a", 2, after)], {"a": served})
    slots.want(["a"])
    assert slots.openings() == [Opening("a", 2, last)]


def test_a_guest_finds_a_slot_beyond_the_limit() -> None:
    slots = Slots({"a": 2})
    assert slots.take("a", "whale")
    assert slots.take("a", "whale")
    assert slots.crowded(["a"]) == {"a": ["whale"]}
    assert not slots.take("a", "whale")
    assert slots.take("a", "guest")
    assert slots.crowded(["a"]) == {}
    assert not slots.take("a", "another")
    slots.release("a", "whale")
    slots.want(["a"])
    assert slots.openings() == []  # the guest has one of the two now


@pytest.mark.parametrize("running", [["x"], ["x", "y"]])
def test_there_are_no_guests_where_everybody_has_one(running: list[str]) -> None:
    slots = Slots({"a": len(running)})
    for organization in running:
        assert slots.take("a", organization)
    assert slots.crowded(["a"]) == {}
    assert not slots.take("a", "guest")
