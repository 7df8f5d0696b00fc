"""What becomes of a generation when something happens to it. Pure: the owner locks the row, asks
one of these (or hear.py, of webhooks), and writes the answer in the same transaction.

Every function takes the generation as it is and returns a `GenerationChange`; a task that is over
never changes again, so that anything may happen twice, late, or in another order than expected.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from typing import assert_never

from safelight.generations.change import (
    CANCELLED,
    TIMEOUT,
    GenerationChange,
    JobEnds,
    JobLost,
    JobReturns,
    delivered,
)
from safelight.generations.jobs import next_question, next_try
from safelight.generations.lifecycle import (
    Generation,
    GenerationStatus,
    MediaKind,
    Task,
    TaskError,
    TaskErrorCode,
    TaskStatus,
    artifact_ready,
    cancelled,
    task_attempt,
    timed_out,
)
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    ProviderAnswer,
    ProviderTrouble,
    Refused,
    TaskUnknown,
)


class TaskStep(Enum):
    """What a task's job does next."""

    SUBMIT = "submit"
    ASK = "ask"
    STORE = "store"
    OVER = "over"


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
            return GenerationChange(generation.with_task(delivered(task, outcome)))
        case Accepted():
            known = replace(task, provider_task_id=outcome.task_id or task.provider_task_id)
            calls_back = outcome.calls_back or generation.kind is MediaKind.VIDEO
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
    return GenerationChange(generation.with_task(done), (told,), then=JobEnds()).concluded(now)


def gave_up(generation: Generation, artifact_id: str, message: str, now: int) -> GenerationChange:
    """The job died: tried too often, or its worker was killed every time."""
    task = generation.task(artifact_id)
    if task is None or task.status.over:
        return GenerationChange(generation)
    error = TaskError(TaskErrorCode.PROVIDER_ERROR, message)
    return GenerationChange(generation).with_failure(task, error).concluded(now)


# What happens from outside


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
        change = change.noted(timed_out(generation))
        change = _with_answers(change, answers)
    last = generation.closes_at is not None
    for task in change.after.tasks:
        if task.status is TaskStatus.STREAMING and not last:
            change = change.with_work(task)  # its job may have left it to us
        elif not task.status.over:
            change = change.with_failure(task, TIMEOUT)
    if all(task.status.over for task in change.after.tasks):
        return change.concluded(now)
    completing = replace(change.after, status=GenerationStatus.COMPLETING, closes_at=now + grace_ms)
    return replace(change, after=completing, then=JobReturns(grace_ms / 1000))


def called_off(generation: Generation, actor: Mapping[str, str], now: int) -> GenerationChange:
    change = GenerationChange(generation)
    if generation.status.over:
        return change
    change = change.noted(cancelled(generation, actor))
    for task in generation.tasks:
        if not task.status.over:
            change = change.with_failure(task, CANCELLED)
    return change.concluded(now)


# Parts of the above


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
                change = change.with_delivery(task, outcome)
            case Refused():
                change = change.with_failure(task, outcome.error)
            case Accepted() | ProviderTrouble() | TaskUnknown():
                pass  # not done by now is not done in time
            case _:
                assert_never(outcome)
    return change


def _refused(generation: Generation, task: Task, error: TaskError, now: int) -> GenerationChange:
    return GenerationChange(generation, then=JobEnds()).with_failure(task, error).concluded(now)


def _troubled(
    generation: Generation, task: Task, trouble: ProviderTrouble, now: int
) -> GenerationChange:
    """Tried again while there is time for it; after that the timer asks, and has the word."""
    left = (generation.deadline - now) / 1000
    if left <= 0:
        return GenerationChange(generation, then=JobEnds())
    error = TaskError(TaskErrorCode.PROVIDER_ERROR, trouble.message)
    seconds = next_try(task.attempt, trouble.retry_after)
    if seconds >= left and not _may_be_had(generation, task, trouble):
        return _refused(generation, task, error, now)
    status = task.status
    if status is not TaskStatus.STREAMING:
        status = TaskStatus.SUBMITTED if trouble.sent else TaskStatus.PENDING
    told = task_attempt(generation, task, error, min(seconds, left))
    later = generation.with_task(replace(task, status=status))
    then = JobReturns(seconds) if seconds < left else JobEnds()
    return GenerationChange(later, (told,), then=then)


def _may_be_had(generation: Generation, task: Task, trouble: ProviderTrouble) -> bool:
    """By the timer: what the provider may have taken, or has delivered, is paid for."""
    taken = trouble.sent or task.status is TaskStatus.STREAMING
    return taken and generation.closes_at is None
