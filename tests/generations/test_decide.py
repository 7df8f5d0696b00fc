"""What becomes of a generation, case by case."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from generations.cases import (
    END,
    ERROR,
    MEDIA,
    NOW,
    OVER,
    a_generation,
    a_task,
    statuses,
    types,
)
from safelight.generations import jobs
from safelight.generations.change import (
    GenerationChange,
    JobEnds,
    JobGoesOn,
    JobLost,
    JobReturns,
)
from safelight.generations.decide import (
    TaskStep,
    answered,
    begun,
    fired,
    gave_up,
    next_step,
    not_stored,
    stored,
)
from safelight.generations.jobs import next_question, next_try
from safelight.generations.lifecycle import (
    MACHINE,
    TASK_MACHINE,
    GenerationStatus,
    Media,
    MediaKind,
    Task,
    TaskError,
    TaskErrorCode,
    TaskStatus,
    check_moves,
)
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    ProviderAnswer,
    ProviderTrouble,
    Refused,
    TaskUnknown,
)
from safelight.infra.queue.jobs import Backoff
from safelight.infra.states import IllegalTransition

# What a job does


@pytest.mark.parametrize(
    ("status", "known", "can", "step"),
    [
        (TaskStatus.PENDING, True, True, TaskStep.SUBMIT),
        (TaskStatus.PENDING, False, True, TaskStep.SUBMIT),
        (TaskStatus.SUBMITTED, True, True, TaskStep.ASK),
        (TaskStatus.SUBMITTED, False, True, TaskStep.SUBMIT),
        (TaskStatus.SUBMITTED, True, False, TaskStep.SUBMIT),
        (TaskStatus.STREAMING, True, True, TaskStep.STORE),
        (TaskStatus.STREAMING, False, False, TaskStep.STORE),
        (TaskStatus.READY, True, True, TaskStep.OVER),
        (TaskStatus.FAILED, True, True, TaskStep.OVER),
    ],
)
def test_next_step(status: TaskStatus, known: bool, can: bool, step: TaskStep) -> None:
    task = a_task(status=status, provider_task_id="x" if known else None)
    assert next_step(a_generation(task), "a", can_be_asked=can) is step


def test_next_step_of_what_is_not_there() -> None:
    assert next_step(None, "a") is TaskStep.OVER
    assert next_step(a_generation(), "b") is TaskStep.OVER
    over = replace(a_generation(), status=GenerationStatus.FAILED)
    assert next_step(over, "a") is TaskStep.OVER


def test_the_first_call_uses_the_id_made_for_it() -> None:
    fresh = a_task(status=TaskStatus.PENDING, attempt=0)
    [task] = begun(a_generation(fresh), "a", TaskStep.SUBMIT, "id-new").after.tasks
    assert (task.status, task.attempt, task.provider_task_id) == (TaskStatus.SUBMITTED, 1, "id-a")
    assert task.former_ids == ()


def test_every_later_call_has_its_own_id() -> None:
    change = begun(a_generation(a_task(attempt=3)), "a", TaskStep.SUBMIT, "id-new")
    [task] = change.after.tasks
    assert (task.provider_task_id, task.former_ids, task.attempt) == ("id-new", ("id-a",), 4)
    [vendors] = begun(a_generation(a_task()), "a", TaskStep.SUBMIT, None).after.tasks
    assert (vendors.provider_task_id, vendors.former_ids) == (None, ("id-a",))


def test_asking_and_storing_keep_the_id() -> None:
    for status, step in (
        (TaskStatus.SUBMITTED, TaskStep.ASK),
        (TaskStatus.STREAMING, TaskStep.SUBMIT),
    ):
        [task] = begun(a_generation(a_task(status=status)), "a", step, "id-new").after.tasks
        assert (task.provider_task_id, task.status, task.attempt) == ("id-a", status, 2)


@pytest.mark.parametrize("status", OVER)
def test_nothing_begins_when_it_is_over(status: TaskStatus) -> None:
    before = a_generation(a_task(status=status))
    change = begun(before, "a", TaskStep.SUBMIT, "id-new")
    assert (change.after, change.then) == (before, JobEnds())


# What a provider answers


@pytest.mark.parametrize(
    ("kind", "outcome", "status", "then"),
    [
        (MediaKind.VIDEO, Accepted("v"), "submitted", JobEnds()),
        (MediaKind.IMAGE, Accepted("v"), "submitted", JobReturns(1.0)),
        (MediaKind.IMAGE, Finished(MEDIA, "v"), "streaming", JobGoesOn()),
        (MediaKind.VIDEO, Finished(MEDIA, "v"), "streaming", JobGoesOn()),
        (MediaKind.IMAGE, Refused(ERROR), "failed", JobEnds()),
        (MediaKind.IMAGE, ProviderTrouble("later"), "pending", JobReturns(1.0)),
        (MediaKind.IMAGE, ProviderTrouble("later", sent=True), "submitted", JobReturns(1.0)),
        (MediaKind.IMAGE, ProviderTrouble("later", 7.0), "pending", JobReturns(7.0)),
        (MediaKind.IMAGE, ProviderTrouble("later", 299.0), "pending", JobReturns(299.0)),
        (MediaKind.IMAGE, ProviderTrouble("later", 301.0), "failed", JobEnds()),
        (MediaKind.IMAGE, TaskUnknown(), "pending", JobReturns(1.0)),
    ],
)
def test_answers(kind: MediaKind, outcome: ProviderAnswer, status: str, then: object) -> None:
    change = answered(a_generation(kind=kind), "a", 1, outcome, NOW)
    assert (statuses(change), change.then) == ([status], then)
    [task] = change.after.tasks
    if isinstance(outcome, Accepted | Finished):
        assert task.provider_task_id == "v"
    assert change.after.status.over == (status == "failed")


def test_a_budget_that_is_used_up_ends_in_the_last_error() -> None:
    late = answered(
        a_generation(kind=MediaKind.IMAGE), "a", 1, ProviderTrouble("503 again"), END - 100
    )
    [task] = late.after.tasks
    assert task.error == TaskError(TaskErrorCode.PROVIDER_ERROR, "503 again")
    assert types(late) == ["artifact_failed", "generation_finished"]


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (TaskStatus.SUBMITTED, ProviderTrouble("It broke off.", sent=True)),
        (TaskStatus.STREAMING, ProviderTrouble("It broke off.")),
    ],
)
def test_what_may_be_had_is_left_to_the_timer(status: TaskStatus, trouble: ProviderTrouble) -> None:
    """There is no time for another try, but the vendor may have it, and may have been paid."""
    generation = a_generation(a_task(status=status), kind=MediaKind.IMAGE)
    late = not_stored(generation, "a", 1, trouble, END - 100)
    assert (late.after, late.then) == (generation, JobEnds())
    [line] = late.lines
    assert (line.type, line.data["reason"]) == ("task_attempt", "next attempt in 0.1 s")
    assert line.data["error"]["message"] == "It broke off."


@pytest.mark.parametrize("status", [TaskStatus.SUBMITTED, TaskStatus.STREAMING])
def test_what_ends_with_the_time_is_left_to_the_timer(status: TaskStatus) -> None:
    """A call that was open until then says nothing of the task; the timer asks, and may get it."""
    generation = a_generation(a_task(status=status), kind=MediaKind.IMAGE)
    late = not_stored(generation, "a", 1, ProviderTrouble("No answer."), END)
    assert late == GenerationChange(generation, then=JobEnds())


def test_an_answer_after_the_webhook() -> None:
    """The result is there already; whatever the call says does not matter."""
    delivered = a_generation(a_task(status=TaskStatus.STREAMING))
    for outcome in (Accepted(), Refused(ERROR), ProviderTrouble("x"), Finished(Media("other"))):
        change = answered(delivered, "a", 1, outcome, NOW)
        assert (change.after, change.then) == (delivered, JobGoesOn())


@pytest.mark.parametrize("decide", [answered, not_stored])
def test_an_answer_to_somebody_elses_attempt(decide: Any) -> None:
    taken_over = a_generation(a_task(attempt=5))
    assert decide(taken_over, "a", 4, Refused(ERROR), NOW).then == JobLost()


@pytest.mark.parametrize("status", OVER)
@pytest.mark.parametrize("decide", [answered, not_stored])
def test_an_answer_when_it_is_over(decide: Any, status: TaskStatus) -> None:
    before = a_generation(a_task(status=status))
    assert decide(before, "a", 1, Finished(MEDIA), NOW) == GenerationChange(before, then=JobEnds())


def test_a_vendor_that_begins_when_nobody_waits_any_more() -> None:
    before = a_generation(a_task(status=TaskStatus.FAILED, provider_task_id=None))
    change = answered(before, "a", 1, Accepted("late"), NOW)
    assert (change.abandoned, change.then) == (("a",), JobEnds())
    assert change.after.tasks[0].provider_task_id == "late"
    assert statuses(change) == ["failed"]
    done = a_generation(a_task(status=TaskStatus.READY))
    assert answered(done, "a", 1, Accepted("late"), NOW) == GenerationChange(done, then=JobEnds())


def test_one_failure_leaves_the_others_alone() -> None:
    before = a_generation(a_task("a"), a_task("b"), kind=MediaKind.IMAGE)
    change = answered(before, "a", 1, Refused(ERROR), NOW)
    assert statuses(change) == ["failed", "submitted"]
    assert change.after.status is GenerationStatus.ACTIVE
    assert types(change) == ["artifact_failed"]


# Storing


def test_the_last_artifact_ends_the_generation() -> None:
    done, going = a_task("a", status=TaskStatus.FAILED), a_task("b", status=TaskStatus.STREAMING)
    change = stored(a_generation(done, going), "b", 1, "image/png", Decimal("0.5"), NOW)
    assert change is not None
    assert (change.after.status, change.after.finished_at) == (GenerationStatus.READY, NOW)
    assert (change.after.cost, change.after.tasks[1].media) == (Decimal("0.5"), None)
    assert types(change) == ["artifact_ready", "generation_finished"]
    assert change.then == JobEnds()


@pytest.mark.parametrize(
    "task",
    [
        a_task(status=TaskStatus.STREAMING, attempt=2),
        a_task(status=TaskStatus.READY),
        a_task(status=TaskStatus.FAILED),
        a_task(status=TaskStatus.SUBMITTED),
    ],
)
def test_what_nobody_wants_is_not_kept(task: Task) -> None:
    assert stored(a_generation(task), "a", 1, "image/png", None, NOW) is None


def test_media_that_cannot_be_fetched_now() -> None:
    change = not_stored(
        a_generation(a_task(status=TaskStatus.STREAMING)), "a", 1, ProviderTrouble("cut"), NOW
    )
    assert (statuses(change), change.then) == (["streaming"], JobReturns(1.0))
    closing = a_generation(
        a_task(status=TaskStatus.STREAMING), status=GenerationStatus.COMPLETING, closes_at=NOW + 500
    )
    late = not_stored(closing, "a", 1, ProviderTrouble("cut"), NOW)
    assert statuses(late) == ["failed"]


def test_what_a_wrong_clock_promised_is_not_waited_for() -> None:
    """The timer's own wait is over; only a clock that was ahead can have closed it so late."""
    grace = 60_000
    streaming = a_task(status=TaskStatus.STREAMING)
    for closes_at, expected in ((NOW + grace, "streaming"), (NOW + grace + 1, "failed")):
        closing = a_generation(streaming, status=GenerationStatus.COMPLETING, closes_at=closes_at)
        assert statuses(fired(closing, {}, NOW, grace)) == [expected]


def test_a_job_that_died() -> None:
    change = gave_up(a_generation(), "a", "its worker died", NOW)
    assert statuses(change) == ["failed"]
    assert change.after.status is GenerationStatus.FAILED
    over = a_generation(a_task(status=TaskStatus.READY))
    assert gave_up(over, "a", "x", NOW) == GenerationChange(over)


# Waits


def test_waits_double_inside_the_time_there_is() -> None:
    assert [next_try(attempt) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert next_try(1, 0.0) == 0.5  # a hint of nothing does not make us hammer
    assert next_try(1, 10**9) == 600
    assert [next_question(n) for n in (1, 2, 30)] == [1.0, 1.5, 10.0]
    late = a_generation(a_task(attempt=100), kind=MediaKind.IMAGE)
    for trouble, now, status in (
        (ProviderTrouble("x"), END - 30_000, "failed"),
        (ProviderTrouble("x"), END - 30_001, "pending"),
        (ProviderTrouble("x", 10**9), END - 600_000, "failed"),
        (ProviderTrouble("x", 10**9), END - 600_001, "pending"),
    ):
        assert statuses(answered(late, "a", 100, trouble, now)) == [status]


def test_a_kinds_policy_is_the_one_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing when tasks are tried again is changing one line."""
    monkeypatch.setattr(jobs, "WORK_RETRY", Backoff(first=3, cap=9))
    monkeypatch.setattr(jobs, "POLL", Backoff(first=4))
    before = a_generation(kind=MediaKind.IMAGE)
    assert answered(before, "a", 1, ProviderTrouble("x"), NOW).then == JobReturns(3.0)
    assert answered(before, "a", 1, Accepted(), NOW).then == JobReturns(4.0)
    assert jobs.work("another").retry is jobs.WORK_RETRY


# Moves


def test_only_drawn_moves_are_written() -> None:
    before = a_generation(a_task(status=TaskStatus.STREAMING))
    check_moves(before, before)
    for task in (a_task(status=TaskStatus.READY), a_task(status=TaskStatus.FAILED)):
        check_moves(before, before.with_task(task))
    with pytest.raises(IllegalTransition, match="A task cannot go streaming → pending"):
        check_moves(before, before.with_task(a_task(status=TaskStatus.PENDING)))
    over = replace(before, status=GenerationStatus.READY)
    with pytest.raises(IllegalTransition, match="A generation cannot go ready → active"):
        check_moves(over, before)


@pytest.mark.parametrize("machine", [MACHINE, TASK_MACHINE])
def test_every_state_has_its_moves_and_nothing_leaves_the_end(machine: Any) -> None:
    states: Any = type(next(iter(machine.moves)))
    assert list(machine.moves) == list(states)
    assert [one for one, moves in machine.moves.items() if not moves] == [
        one for one in states if one.over
    ]
