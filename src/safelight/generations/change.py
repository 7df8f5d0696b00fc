"""What an event does to a generation, as a value: how it is afterwards, the history told, the jobs
that follow, and what becomes of the job that asked. Pure; decide.py and hear.py make these."""

from dataclasses import dataclass, replace

from safelight.generations.lifecycle import (
    Generation,
    GenerationStatus,
    Task,
    TaskError,
    TaskErrorCode,
    TaskStatus,
    artifact_failed,
    finished,
)
from safelight.generations.providers.base import Finished
from safelight.infra.history import Line

TIMEOUT = TaskError(TaskErrorCode.TIMEOUT, "It was not finished in time.")
CANCELLED = TaskError(TaskErrorCode.CANCELLED, "It was cancelled.")


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

    def noted(self, line: Line) -> "GenerationChange":
        return replace(self, lines=(*self.lines, line))

    def with_work(self, task: Task) -> "GenerationChange":
        return replace(self, work=tuple(dict.fromkeys((*self.work, task.artifact_id))))

    def with_delivery(self, task: Task, outcome: Finished) -> "GenerationChange":
        return replace(self, after=self.after.with_task(delivered(task, outcome))).with_work(task)

    def with_failure(self, task: Task, error: TaskError) -> "GenerationChange":
        over = replace(task, status=TaskStatus.FAILED, error=error, media=None)
        waits = task.status is TaskStatus.SUBMITTED and task.provider_task_id is not None
        stop = waits and error in {TIMEOUT, CANCELLED}
        change = replace(self, after=self.after.with_task(over))
        if stop:
            change = replace(change, abandoned=(*change.abandoned, task.artifact_id))
        return change.noted(artifact_failed(change.after, over))

    def concluded(self, now: int) -> "GenerationChange":
        """The generation is over with its last task."""
        generation = self.after
        if generation.status.over or not all(task.status.over for task in generation.tasks):
            return self
        status = GenerationStatus.READY if generation.ready else GenerationStatus.FAILED
        over = replace(generation, status=status, finished_at=now, closes_at=None)
        return replace(self, after=over).noted(finished(over))


def delivered(task: Task, outcome: Finished) -> Task:
    known = outcome.task_id or task.provider_task_id
    return replace(task, status=TaskStatus.STREAMING, media=outcome.media, provider_task_id=known)
