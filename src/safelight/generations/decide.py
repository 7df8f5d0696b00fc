"""What becomes of a generation when something happens to it. Pure: the owner locks the row, asks
one of these, and writes the answer in the same transaction.

Every function takes the generation as it is and returns a `GenerationChange`; a task that is over
never changes again, so that anything may happen twice, late, or in another order than expected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import assert_never

from safelight.generations.jobs import next_question, next_try
from safelight.generations.lifecycle import (
    Generation,
    GenerationStatus,
    MediaKind,
    Task,
    TaskError,
    TaskErrorCode,
    TaskStatus,
    artifact_failed,
    artifact_ready,
    cancelled,
    finished,
    task_attempt,
    timed_out,
    webhook_accepted,
    webhook_ignored,
)
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    ProviderAnswer,
    ProviderTrouble,
    Refused,
    Report,
    TaskUnknown,
)
from safelight.infra.history import Line

TIMEOUT = TaskError(TaskErrorCode.TIMEOUT, "It was not finished in time.")
CANCELLED = TaskError(TaskErrorCode.CANCELLED, "It was cancelled.")


class TaskStep(Enum):
    """What a task's job does next."""

    SUBMIT = "submit"
    ASK = "ask"
    STORE = "store"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class JobGoesOn:
    """The job has more to do."""


@dataclass(frozen=True, slots=True)
class JobEnds:
    """The job is done, in the same transaction."""


@dataclass(frozen=True, slots=True)
class JobReturns:
    """The job comes back after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class JobLost:
    """Another job has taken the task up meanwhile."""


JobFate = JobGoesOn | JobEnds | JobReturns | JobLost


@dataclass(frozen=True, slots=True)
class GenerationChange:
    """`work`: tasks whose job has something to do now. `abandoned`: tasks whose provider should be
    told that nobody waits any more."""

    after: Generation
    lines: tuple[Line, ...] = ()
    work: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    then: JobFate = JobGoesOn()


# What a job does


def next_step(
    generation: Generation | None, artifact_id: str, *, can_be_asked: bool = True
) -> TaskStep:
    """A call whose outcome nobody knows is asked about, where it has a name to ask by."""
    task = generation.task(artifact_id) if generation else None
    if generation is None or task is None or generation.status.over:
        return TaskStep.OVER
    match task.status:
        case TaskStatus.PENDING:
            return TaskStep.SUBMIT
        case TaskStatus.SUBMITTED:
            asks = can_be_asked and task.provider_task_id is not None
            return TaskStep.ASK if asks else TaskStep.SUBMIT
        case TaskStatus.STREAMING:
            return TaskStep.STORE
        case TaskStatus.READY | TaskStatus.FAILED:
            return TaskStep.OVER
        case _:
            assert_never(task.status)


def begun(
    generation: Generation, artifact_id: str, intended: TaskStep, fresh_id: str | None
) -> GenerationChange:
    """The task is taken up. Every call after the first has an id of its own; earlier ones stay
    valid for a webhook that comes late."""
    task, actual = generation.task(artifact_id), next_step(generation, artifact_id)
    if task is None or actual is TaskStep.OVER:
        return GenerationChange(generation, then=JobEnds())
    taken = replace(task, attempt=task.attempt + 1)
    if actual is not TaskStep.STORE and intended is TaskStep.SUBMIT:
        taken = replace(taken, status=TaskStatus.SUBMITTED)
        if task.attempt > 0 and task.provider_task_id is not None:
            former = (*task.former_ids, task.provider_task_id)
            taken = replace(taken, provider_task_id=fresh_id, former_ids=former)
    return GenerationChange(generation.with_task(taken))


def answered(
    generation: Generation, artifact_id: str, attempt: int, outcome: ProviderAnswer, now: int
) -> GenerationChange:
    """The provider has answered a submission or a question."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return _too_late(generation, task, outcome)
    if task.attempt != attempt:
        return GenerationChange(generation, then=JobLost())
    if task.status is TaskStatus.STREAMING:
        return GenerationChange(generation)  # a webhook was faster
    return _taken_in(generation, task, outcome, now)


def _taken_in(
    generation: Generation, task: Task, outcome: ProviderAnswer, now: int
) -> GenerationChange:
    match outcome:
        case Finished():
            return GenerationChange(generation.with_task(_delivered(task, outcome)))
        case Accepted():
            known = replace(task, provider_task_id=outcome.task_id or task.provider_task_id)
            calls_back = generation.kind is MediaKind.VIDEO
            then = JobEnds() if calls_back else JobReturns(next_question(task.attempt))
            return GenerationChange(generation.with_task(known), then=then)
        case Refused():
            return _refused(generation, task, outcome.error, now)
        case ProviderTrouble():
            return _troubled(generation, task, outcome, now)
        case TaskUnknown():
            return _troubled(generation, task, ProviderTrouble("The task is not known."), now)
        case _:
            assert_never(outcome)


def not_stored(
    generation: Generation, artifact_id: str, attempt: int, why: Refused | ProviderTrouble, now: int
) -> GenerationChange:
    """The media could not be fetched or kept."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return GenerationChange(generation, then=JobEnds())
    if task.attempt != attempt:
        return GenerationChange(generation, then=JobLost())
    return _taken_in(generation, task, why, now)


def stored(
    generation: Generation,
    artifact_id: str,
    attempt: int,
    content_type: str,
    cost: Decimal | None,
    now: int,
) -> GenerationChange | None:
    """None: nobody wants this artifact any more, and it must not be kept."""
    task = generation.task(artifact_id)
    if task is None or task.status is not TaskStatus.STREAMING or task.attempt != attempt:
        return None
    done = replace(task, status=TaskStatus.READY, media=None, cost=cost)
    told = artifact_ready(generation, artifact_id, content_type)
    return _concluded(GenerationChange(generation.with_task(done), (told,), then=JobEnds()), now)


def gave_up(generation: Generation, artifact_id: str, message: str, now: int) -> GenerationChange:
    """The job died: tried too often, or its worker was killed every time."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return GenerationChange(generation)
    error = TaskError(TaskErrorCode.PROVIDER_ERROR, message)
    return _concluded(_with_failure(GenerationChange(generation), task, error), now)


# What happens from outside


def heard(
    generation: Generation,
    reports: Sequence[Report],
    named: str | None,
    *,
    chooses_ids: bool,
    now: int,
) -> GenerationChange:
    """A webhook has come. `named` is the artifact its address names."""
    change = GenerationChange(generation)
    if not reports:
        change = _noted(change, webhook_ignored(generation.id, named, "it tells of no task"))
    for report in reports:
        task = _meant(change.after, report, named, chooses_ids=chooses_ids)
        change = _reported(change, task, report, named)
    return _concluded(change, now)


def fired(
    generation: Generation, answers: Mapping[str, ProviderAnswer], now: int, grace_ms: int
) -> GenerationChange:
    """The timer has come. `answers` is what providers said of their tasks when asked once more;
    what has been delivered gets a little longer to be stored, the rest is over."""
    if generation.status.over:
        return GenerationChange(generation, then=JobEnds())
    left = 0 if generation.closes_at is None else generation.closes_at - now
    if 0 < left <= grace_ms:  # more than that was promised by a clock that was ahead
        return GenerationChange(generation, then=JobReturns(left / 1000))
    change = GenerationChange(generation, then=JobEnds())
    if generation.closes_at is None:
        change = _noted(change, timed_out(generation))
        change = _with_answers(change, answers)
    last = generation.closes_at is not None
    for task in change.after.tasks:
        if not task.status.over and (last or task.status is not TaskStatus.STREAMING):
            change = _with_failure(change, task, TIMEOUT)
    if all(task.status.over for task in change.after.tasks):
        return _concluded(change, now)
    completing = replace(change.after, status=GenerationStatus.COMPLETING, closes_at=now + grace_ms)
    return replace(change, after=completing, then=JobReturns(grace_ms / 1000))


def called_off(generation: Generation, actor: Mapping[str, str], now: int) -> GenerationChange:
    change = GenerationChange(generation)
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


def _reported(
    change: GenerationChange, task: Task | None, report: Report, named: str | None
) -> GenerationChange:
    generation = change.after
    if task is None:
        reason = "it names no task of this generation"
        return _noted(change, webhook_ignored(generation.id, named, reason))
    if reason := _nothing_new(task, report):
        return _noted(change, webhook_ignored(generation.id, task.artifact_id, reason))
    outcome = report.outcome
    match outcome:
        case Finished():
            change = _noted(change, webhook_accepted(generation, task.artifact_id))
            return _with_delivery(change, task, outcome)
        case Refused():
            return _with_failure(change, task, outcome.error)
        case Accepted() | ProviderTrouble() | TaskUnknown():
            known = replace(task, provider_task_id=task.provider_task_id or report.task_id)
            return replace(change, after=generation.with_task(known))
        case _:
            assert_never(outcome)


def _nothing_new(task: Task, report: Report) -> str:
    """Why it brings nothing, if so."""
    if task.status.over:
        return "its task is over"
    if task.status is TaskStatus.STREAMING:
        return "its task has been delivered before"
    if isinstance(report.outcome, Refused) and report.task_id in task.former_ids:
        return "the task has been submitted anew since"
    return ""


def _too_late(
    generation: Generation, task: Task | None, outcome: ProviderAnswer
) -> GenerationChange:
    """Nobody waits any more; a provider that has just begun is told so."""
    begun_id = outcome.task_id if isinstance(outcome, Accepted) else None
    if task is None or begun_id is None or task.status is not TaskStatus.FAILED:
        return GenerationChange(generation, then=JobEnds())
    known = generation.with_task(replace(task, provider_task_id=begun_id))
    return GenerationChange(known, abandoned=(task.artifact_id,), then=JobEnds())


def _with_answers(
    change: GenerationChange, answers: Mapping[str, ProviderAnswer]
) -> GenerationChange:
    for artifact_id, outcome in answers.items():
        task = change.after.task(artifact_id)
        if task is None or task.status.over or task.status is TaskStatus.STREAMING:
            continue
        match outcome:
            case Finished():
                change = _with_delivery(change, task, outcome)
            case Refused():
                change = _with_failure(change, task, outcome.error)
            case Accepted() | ProviderTrouble() | TaskUnknown():
                pass  # not done by now is not done in time
            case _:
                assert_never(outcome)
    return change


def _with_delivery(change: GenerationChange, task: Task, outcome: Finished) -> GenerationChange:
    after = change.after.with_task(_delivered(task, outcome))
    return replace(change, after=after, work=(*change.work, task.artifact_id))


def _delivered(task: Task, outcome: Finished) -> Task:
    known = outcome.task_id or task.provider_task_id
    return replace(task, status=TaskStatus.STREAMING, media=outcome.media, provider_task_id=known)


def _refused(generation: Generation, task: Task, error: TaskError, now: int) -> GenerationChange:
    change = _with_failure(GenerationChange(generation, then=JobEnds()), task, error)
    return _concluded(change, now)


def _troubled(
    generation: Generation, task: Task, trouble: ProviderTrouble, now: int
) -> GenerationChange:
    """Tried again while there is time for it; after that the timer asks, and has the word."""
    if now >= generation.deadline:
        return GenerationChange(generation, then=JobEnds())
    error = TaskError(TaskErrorCode.PROVIDER_ERROR, trouble.message)
    seconds = next_try(task.attempt, trouble.retry_after)
    if now + seconds * 1000 >= generation.deadline:
        return _refused(generation, task, error, now)
    status = task.status
    if status is not TaskStatus.STREAMING:
        status = TaskStatus.SUBMITTED if trouble.sent else TaskStatus.PENDING
    told = task_attempt(generation, task, error, seconds)
    later = generation.with_task(replace(task, status=status))
    return GenerationChange(later, (told,), then=JobReturns(seconds))


def _with_failure(change: GenerationChange, task: Task, error: TaskError) -> GenerationChange:
    over = replace(task, status=TaskStatus.FAILED, error=error, media=None)
    waits = task.status is TaskStatus.SUBMITTED and task.provider_task_id is not None
    stop = waits and error in {TIMEOUT, CANCELLED}
    return replace(
        change,
        after=change.after.with_task(over),
        lines=(*change.lines, artifact_failed(change.after, over)),
        abandoned=(*change.abandoned, task.artifact_id) if stop else change.abandoned,
    )


def _noted(change: GenerationChange, line: Line) -> GenerationChange:
    return replace(change, lines=(*change.lines, line))


def _concluded(change: GenerationChange, now: int) -> GenerationChange:
    """The generation is over with its last task."""
    generation = change.after
    if generation.status.over or not all(task.status.over for task in generation.tasks):
        return change
    status = GenerationStatus.READY if generation.ready else GenerationStatus.FAILED
    over = replace(generation, status=status, finished_at=now, closes_at=None)
    return _noted(replace(change, after=over), finished(over))
