"""What becomes of a generation when something happens to it. Pure: the owner locks the row, asks
one of these, and writes the answer in the same transaction.

Every function takes the generation as it is and returns a `Change`; a task that is over never
changes again, so that anything may happen twice, late, or in another order than expected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

from safelight.generations.lifecycle import (
    Code,
    Generation,
    Kind,
    Status,
    Task,
    TaskError,
    TaskStatus,
)
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    Outcome,
    Refused,
    Report,
    Trouble,
)
from safelight.generations.retry import poll_wait, wait
from safelight.generations.stories import (
    attempted,
    cancelled,
    failed,
    finished,
    ignored,
    ready,
    reported,
    timed_out,
)
from safelight.infra.history import Line

TIMEOUT = TaskError(Code.TIMEOUT, "It was not finished in time.")
CANCELLED = TaskError(Code.CANCELLED, "It was cancelled.")


class Step(Enum):
    """What a task's job does next."""

    SUBMIT = "submit"
    ASK = "ask"
    STORE = "store"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class GoOn:
    """The job has more to do."""


@dataclass(frozen=True, slots=True)
class End:
    """The job is done, in the same transaction."""


@dataclass(frozen=True, slots=True)
class Again:
    """The job comes back after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NotMine:
    """Another job has taken the task up meanwhile."""


Then = GoOn | End | Again | NotMine


@dataclass(frozen=True, slots=True)
class Change:
    """`work`: tasks whose job has something to do now. `abandoned`: tasks whose provider should be
    told that nobody waits any more."""

    after: Generation
    entries: tuple[Line, ...] = ()
    work: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    then: Then = GoOn()


# What a job does


def next_step(
    generation: Generation | None, artifact_id: str, *, can_be_asked: bool = True
) -> Step:
    """A call whose outcome nobody knows is asked about, where it has a name to ask by."""
    task = generation.task(artifact_id) if generation else None
    if generation is None or task is None or generation.status.over or task.status.over:
        return Step.OVER
    if task.status is TaskStatus.STREAMING:
        return Step.STORE
    asks = can_be_asked and task.provider_task_id is not None
    return Step.ASK if task.status is TaskStatus.SUBMITTED and asks else Step.SUBMIT


def begun(generation: Generation, artifact_id: str, intended: Step, fresh_id: str | None) -> Change:
    """The task is taken up. Every call after the first has an id of its own; earlier ones stay
    valid for a webhook that comes late."""
    task, actual = generation.task(artifact_id), next_step(generation, artifact_id)
    if task is None or actual is Step.OVER:
        return Change(generation, then=End())
    taken = replace(task, attempt=task.attempt + 1)
    if actual is not Step.STORE and intended is Step.SUBMIT:
        taken = replace(taken, status=TaskStatus.SUBMITTED)
        if task.attempt > 0 and task.provider_task_id is not None:
            former = (*task.former_ids, task.provider_task_id)
            taken = replace(taken, provider_task_id=fresh_id, former_ids=former)
    return Change(generation.with_task(taken))


def answered(
    generation: Generation, artifact_id: str, attempt: int, outcome: Outcome, now: int
) -> Change:
    """The provider has answered a submission or a question."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return _too_late(generation, task, outcome)
    if task.attempt != attempt:
        return Change(generation, then=NotMine())
    if task.status is TaskStatus.STREAMING:
        return Change(generation)  # a webhook was faster
    if isinstance(outcome, Finished):
        return Change(generation.with_task(_delivered(task, outcome)))
    if isinstance(outcome, Accepted):
        known = replace(task, provider_task_id=outcome.task_id or task.provider_task_id)
        calls_back = generation.kind is Kind.VIDEO
        then = End() if calls_back else Again(poll_wait(attempt))
        return Change(generation.with_task(known), then=then)
    return _not_done(generation, task, outcome, now)


def not_stored(
    generation: Generation, artifact_id: str, attempt: int, outcome: Outcome, now: int
) -> Change:
    """The media could not be fetched or kept."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return Change(generation, then=End())
    if task.attempt != attempt:
        return Change(generation, then=NotMine())
    return _not_done(generation, task, outcome, now)


def stored(
    generation: Generation,
    artifact_id: str,
    attempt: int,
    content_type: str,
    cost: Decimal | None,
    now: int,
) -> Change | None:
    """None: nobody wants this artifact any more, and it must not be kept."""
    task = generation.task(artifact_id)
    if task is None or task.status is not TaskStatus.STREAMING or task.attempt != attempt:
        return None
    done = replace(task, status=TaskStatus.READY, media=None, cost=cost)
    told = ready(generation, artifact_id, content_type)
    return _concluded(Change(generation.with_task(done), (told,), then=End()), now)


def gave_up(generation: Generation, artifact_id: str, message: str, now: int) -> Change:
    """The job died: tried too often, or its worker was killed every time."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return Change(generation)
    error = TaskError(Code.PROVIDER_ERROR, message)
    return _concluded(_with_failure(Change(generation), task, error), now)


# What happens from outside


def heard(
    generation: Generation,
    reports: Sequence[Report],
    named: str | None,
    *,
    chooses_ids: bool,
    now: int,
) -> Change:
    """A webhook has come. `named` is the artifact its address names."""
    change = Change(generation)
    if not reports:
        change = _noted(change, ignored(generation, named, "it tells of no task"))
    for report in reports:
        task = _meant(change.after, report, named, chooses_ids=chooses_ids)
        change = _reported(change, task, report, named)
    return _concluded(change, now)


def fired(
    generation: Generation, answers: Mapping[str, Outcome], now: int, grace_ms: int
) -> Change:
    """The timer has come. `answers` is what providers said of their tasks when asked once more;
    what has been delivered gets a little longer to be stored, the rest is over."""
    if generation.status.over:
        return Change(generation, then=End())
    if generation.closes_at is not None and now < generation.closes_at:
        return Change(generation, then=Again((generation.closes_at - now) / 1000))
    change = Change(generation, then=End())
    if generation.closes_at is None:
        change = _noted(change, timed_out(generation))
        change = _with_answers(change, answers)
    last = generation.closes_at is not None
    for task in change.after.tasks:
        if not task.status.over and (last or task.status is not TaskStatus.STREAMING):
            change = _with_failure(change, task, TIMEOUT)
    if all(task.status.over for task in change.after.tasks):
        return _concluded(change, now)
    completing = replace(change.after, status=Status.COMPLETING, closes_at=now + grace_ms)
    return replace(change, after=completing, then=Again(grace_ms / 1000))


def called_off(generation: Generation, actor: Mapping[str, str], now: int) -> Change:
    change = Change(generation)
    if generation.status.over:
        return change
    change = _noted(change, cancelled(generation, actor))
    for task in generation.tasks:
        if not task.status.over:
            change = _with_failure(change, task, CANCELLED)
    return _concluded(change, now)


# Parts of the above


def _meant(
    generation: Generation, report: Report, named: str | None, *, chooses_ids: bool
) -> Task | None:
    """By the id in the body; else by the address, where the body's id is the vendor's own choice
    (and perhaps not known yet) or is missing."""
    for task in generation.tasks:
        ids = (task.provider_task_id, *task.former_ids)
        if report.task_id is not None and report.task_id in ids:
            return task
    if named is not None and (chooses_ids or report.task_id is None):
        return generation.task(named)
    return None


def _reported(change: Change, task: Task | None, report: Report, named: str | None) -> Change:
    generation = change.after
    if task is None:
        return _noted(change, ignored(generation, named, "it names no task of this generation"))
    if reason := _nothing_new(task, report):
        return _noted(change, ignored(generation, task.artifact_id, reason))
    outcome = report.outcome
    if isinstance(outcome, Finished):
        change = _noted(change, reported(generation, task.artifact_id))
        change = replace(change, after=generation.with_task(_delivered(task, outcome)))
        return replace(change, work=(*change.work, task.artifact_id))
    if isinstance(outcome, Refused):
        return _with_failure(change, task, outcome.error)
    known = replace(task, provider_task_id=task.provider_task_id or report.task_id)
    return replace(change, after=generation.with_task(known))


def _nothing_new(task: Task, report: Report) -> str | None:
    if task.status.over:
        return "its task is over"
    if task.status is TaskStatus.STREAMING:
        return "its task has been delivered before"
    if isinstance(report.outcome, Refused) and report.task_id in task.former_ids:
        return "the task has been submitted anew since"
    return None


def _too_late(generation: Generation, task: Task | None, outcome: Outcome) -> Change:
    """Nobody waits any more; a provider that has just begun is told so."""
    begun_id = outcome.task_id if isinstance(outcome, Accepted) else None
    if task is None or begun_id is None or task.status is not TaskStatus.FAILED:
        return Change(generation, then=End())
    known = replace(task, provider_task_id=begun_id)
    return Change(generation.with_task(known), abandoned=(task.artifact_id,), then=End())


def _with_answers(change: Change, answers: Mapping[str, Outcome]) -> Change:
    for artifact_id, outcome in answers.items():
        task = change.after.task(artifact_id)
        if task is None or task.status.over or task.status is TaskStatus.STREAMING:
            continue
        if isinstance(outcome, Finished):
            change = replace(change, after=change.after.with_task(_delivered(task, outcome)))
            change = replace(change, work=(*change.work, artifact_id))
        elif isinstance(outcome, Refused):
            change = _with_failure(change, task, outcome.error)
    return change


def _delivered(task: Task, outcome: Finished) -> Task:
    known = outcome.task_id or task.provider_task_id
    return replace(task, status=TaskStatus.STREAMING, media=outcome.media, provider_task_id=known)


def _not_done(generation: Generation, task: Task, outcome: Outcome, now: int) -> Change:
    if isinstance(outcome, Refused):
        change = _with_failure(Change(generation, then=End()), task, outcome.error)
        return _concluded(change, now)
    trouble = outcome if isinstance(outcome, Trouble) else Trouble("The task is not known.")
    error = TaskError(Code.PROVIDER_ERROR, trouble.message)
    seconds = wait(task.attempt, trouble.retry_after, now, generation.deadline)
    if seconds is None:
        change = _with_failure(Change(generation, then=End()), task, error)
        return _concluded(change, now)
    status = task.status
    if status is not TaskStatus.STREAMING:
        status = TaskStatus.SUBMITTED if trouble.sent else TaskStatus.PENDING
    told = attempted(generation, task, error, seconds)
    later = generation.with_task(replace(task, status=status))
    return Change(later, (told,), then=Again(seconds))


def _with_failure(change: Change, task: Task, error: TaskError) -> Change:
    over = replace(task, status=TaskStatus.FAILED, error=error, media=None)
    waits = task.status is TaskStatus.SUBMITTED and task.provider_task_id is not None
    stop = waits and error in {TIMEOUT, CANCELLED}
    return replace(
        change,
        after=change.after.with_task(over),
        entries=(*change.entries, failed(change.after, over)),
        abandoned=(*change.abandoned, task.artifact_id) if stop else change.abandoned,
    )


def _noted(change: Change, entry: Line) -> Change:
    return replace(change, entries=(*change.entries, entry))


def _concluded(change: Change, now: int) -> Change:
    """The generation is over with its last task."""
    generation = change.after
    if generation.status.over or not all(task.status.over for task in generation.tasks):
        return change
    status = Status.READY if generation.ready else Status.FAILED
    over = replace(generation, status=status, finished_at=now, closes_at=None)
    return _noted(replace(change, after=over), finished(over))
