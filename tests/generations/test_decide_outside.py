"""What becomes of a generation when something happens from outside: webhooks, the timer, a person."""

import pytest

from generations.cases import (
    ACTOR,
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
from safelight.generations.change import (
    GenerationChange,
    JobEnds,
    JobReturns,
)
from safelight.generations.decide import (
    called_off,
    fired,
)
from safelight.generations.hear import (
    heard,
    hinted,
)
from safelight.generations.lifecycle import (
    GenerationStatus,
    Task,
    TaskErrorCode,
    TaskStatus,
)
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    ProviderAnswer,
    Refused,
    Report,
)

# Webhooks


@pytest.mark.parametrize(
    ("reported", "named", "chooses", "meant"),
    [
        ("id-a", "a", False, "a"),
        ("id-b", "a", False, "b"),  # the body outranks the address
        ("id-a", None, False, "a"),
        ("old-a", "a", False, "a"),
        ("other", "a", False, None),  # our ids: one we did not make is nobody's
        (None, "b", False, "b"),
        (None, None, False, None),
        (None, "c", False, None),
        ("other", "a", True, "a"),  # the vendor's ids: perhaps not known yet
        ("other", None, True, None),
    ],
)
def test_whose_webhook_it_is(
    reported: str | None, named: str | None, chooses: bool, meant: str | None
) -> None:
    before = a_generation(a_task("a", former_ids=("old-a",)), a_task("b"))
    report = Report(reported, Finished(MEDIA, reported))
    change = heard(before, [report], named, chooses_ids=chooses, now=NOW)
    assert change.work == ((meant,) if meant else ())
    assert types(change) == ["webhook_accepted" if meant else "webhook_ignored"]


@pytest.mark.parametrize("status", [TaskStatus.STREAMING, *OVER])
@pytest.mark.parametrize("outcome", [Finished(MEDIA), Refused(ERROR), Accepted()])
def test_a_webhook_that_brings_nothing_new(status: TaskStatus, outcome: ProviderAnswer) -> None:
    before = a_generation(a_task(status=status), a_task("b"))
    change = heard(before, [Report("id-a", outcome)], None, chooses_ids=False, now=NOW)
    assert (change.after, change.work, types(change)) == (before, (), ["webhook_ignored"])


def test_a_webhook_before_anything_is_known() -> None:
    """A result of a call that was put down as turned away is a result all the same."""
    before = a_generation(a_task(status=TaskStatus.PENDING))
    change = heard(before, [Report("id-a", Finished(MEDIA))], None, chooses_ids=False, now=NOW)
    assert (statuses(change), change.work) == (["streaming"], ("a",))


def test_an_error_of_an_earlier_call_is_not_the_present_ones() -> None:
    before = a_generation(a_task(former_ids=("old",)))
    ignored = heard(before, [Report("old", Refused(ERROR))], None, chooses_ids=False, now=NOW)
    assert statuses(ignored) == ["submitted"]
    failing = heard(before, [Report("id-a", Refused(ERROR))], None, chooses_ids=False, now=NOW)
    assert types(failing) == ["artifact_failed", "generation_finished"]


def test_several_reports_in_one_body() -> None:
    before = a_generation(a_task("a"), a_task("b"), a_task("c"))
    reports = [
        Report("id-c", Finished(MEDIA)),
        Report("id-a", Refused(ERROR)),
        Report("x", Accepted()),
    ]
    change = heard(before, reports, "a", chooses_ids=False, now=NOW)
    assert statuses(change) == ["failed", "submitted", "streaming"]
    assert change.work == ("c",)
    nothing = heard(before, [], "a", chooses_ids=False, now=NOW)
    assert (nothing.after, types(nothing)) == (before, ["webhook_ignored"])


def test_a_repetition_is_not_told_again() -> None:
    before = a_generation(a_task(status=TaskStatus.READY), a_task("b"))
    many = [Report("id-a", Finished(MEDIA))] * 9 + [Report("?", Accepted())] * 9
    change = heard(before, many, "nobody's", chooses_ids=False, now=NOW)
    told = [(line.data["artifactId"], line.data["reason"]) for line in change.lines]
    assert [artifact for artifact, _ in told] == ["a", None]
    again = heard(before, many, None, chooses_ids=False, told=told, now=NOW)
    assert again == GenerationChange(before)


@pytest.mark.parametrize(
    ("task", "named", "asked"),
    [
        (a_task(), "a", ("a",)),
        (a_task(), None, ()),
        (a_task(), "b", ()),
        (a_task(provider_task_id=None), "a", ()),
        (a_task(status=TaskStatus.PENDING), "a", ()),
        (a_task(status=TaskStatus.STREAMING), "a", ()),
        (a_task(status=TaskStatus.READY), "a", ()),
    ],
)
def test_what_is_not_believed_is_asked_about(
    task: Task, named: str | None, asked: tuple[str, ...]
) -> None:
    before = a_generation(task)
    assert hinted(before, named) == GenerationChange(before, work=asked)


# The timer


def test_the_timer_ends_what_is_not_delivered() -> None:
    before = a_generation(
        a_task("a", status=TaskStatus.PENDING), a_task("b"), a_task("c", status=TaskStatus.READY)
    )
    change = fired(before, {}, END, 5000)
    assert statuses(change) == ["failed", "failed", "ready"]
    assert (change.after.status, change.then) == (GenerationStatus.READY, JobEnds())
    assert change.abandoned == ("b",)
    assert all(
        task.error.code is TaskErrorCode.TIMEOUT for task in change.after.tasks if task.error
    )
    assert fired(change.after, {}, END, 5000) == GenerationChange(change.after, then=JobEnds())


def test_what_was_delivered_gets_a_little_longer() -> None:
    before = a_generation(a_task("a", status=TaskStatus.STREAMING), a_task("b"), a_task("c"))
    answers: dict[str, ProviderAnswer] = {"b": Finished(MEDIA), "c": Accepted()}
    change = fired(before, answers, END, 5000)
    assert statuses(change) == ["streaming", "streaming", "failed"]
    assert (change.after.status, change.after.closes_at) == (
        GenerationStatus.COMPLETING,
        END + 5000,
    )
    assert (change.then, change.work) == (JobReturns(5.0), ("b", "a"))
    early = fired(change.after, {}, END + 2000, 5000)
    assert (early.after, early.then) == (change.after, JobReturns(3.0))
    last = fired(change.after, {}, END + 5000, 5000)
    assert statuses(last) == ["failed", "failed", "failed"]
    assert (last.after.status, last.then) == (GenerationStatus.FAILED, JobEnds())


def test_an_answer_to_the_last_question_may_be_no() -> None:
    change = fired(a_generation(), {"a": Refused(ERROR)}, END, 5000)
    assert change.after.tasks[0].error == ERROR
    assert change.abandoned == ()


# Cancelling


def test_cancelling() -> None:
    before = a_generation(
        a_task("a", status=TaskStatus.READY),
        a_task("b"),
        a_task("c", status=TaskStatus.STREAMING),
        a_task("d", status=TaskStatus.PENDING),
    )
    change = called_off(before, ACTOR, NOW)
    assert statuses(change) == ["ready", "failed", "failed", "failed"]
    assert change.after.status is GenerationStatus.READY
    assert change.abandoned == ("b",)
    assert types(change)[0] == "generation_cancelled"
    assert called_off(change.after, ACTOR, NOW) == GenerationChange(change.after)
