"""A generation and its tasks, one per artifact: their states, the only moves between those, what
remains of them, and the history they write. Pure; docs/states.md is drawn from the machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

from safelight.infra.history import Line
from safelight.infra.states import Machine, Phase, State

# What the world is told, and the fields of each message.
MESSAGES = {
    "generation_started": ("id", "kind", "model", "count"),
    "artifact_ready": ("id", "generationId", "contentType"),
    "artifact_failed": ("artifactId", "generationId", "error"),
    "generation_finished": ("id", "status", "artifactCount"),
}


class MediaKind(StrEnum):
    IMAGE = "image"
    VIDEO = "video"


class GenerationStatus(State):
    ACTIVE = "active", "Being made", "loop", "plain"
    # The timer has fired; what had arrived by then is still being stored.
    COMPLETING = "completing", "Being stored", "loop", "plain"
    READY = "ready", "Ready", "check", "good", Phase.OVER  # with at least one artifact
    FAILED = "failed", "Failed", "cross", "problem", Phase.OVER  # with none


class TaskStatus(State):
    # Nothing has been sent, or what was sent is known to have been turned away.
    PENDING = "pending", "Waiting for its turn", "clock"
    # A call has left, or is about to; the provider may be at work.
    SUBMITTED = "submitted", "Being made", "loop", "plain"
    # The provider has delivered; the bytes are being stored.
    STREAMING = "streaming", "Being stored", "loop", "plain"
    READY = "ready", "Ready", "check", "good", Phase.OVER
    FAILED = "failed", "Failed", "cross", "problem", Phase.OVER


MACHINE = Machine(
    "A generation",
    {
        GenerationStatus.ACTIVE: (
            GenerationStatus.COMPLETING,
            GenerationStatus.READY,
            GenerationStatus.FAILED,
        ),
        GenerationStatus.COMPLETING: (GenerationStatus.READY, GenerationStatus.FAILED),
        GenerationStatus.READY: (),
        GenerationStatus.FAILED: (),
    },
)
TASK_MACHINE = Machine(
    "A task",
    {
        TaskStatus.PENDING: (TaskStatus.SUBMITTED, TaskStatus.STREAMING, TaskStatus.FAILED),
        TaskStatus.SUBMITTED: (TaskStatus.PENDING, TaskStatus.STREAMING, TaskStatus.FAILED),
        TaskStatus.STREAMING: (TaskStatus.READY, TaskStatus.FAILED),
        TaskStatus.READY: (),
        TaskStatus.FAILED: (),
    },
)


class TaskErrorCode(StrEnum):
    """Why a task failed."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    PROVIDER_ERROR = "provider_error"
    FETCH_REFUSED = "fetch_refused"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class TaskError:
    code: TaskErrorCode
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


# In flight


@dataclass(frozen=True, slots=True)
class Media:
    """A result as its provider delivered it: where the bytes are, and what was said of them."""

    url: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"url": self.url, "facts": dict(self.facts)}


@dataclass(frozen=True, slots=True)
class Task:
    artifact_id: str
    position: int
    status: TaskStatus = TaskStatus.PENDING
    provider_task_id: str | None = None
    former_ids: tuple[str, ...] = ()
    attempt: int = 0
    error: TaskError | None = None
    media: Media | None = None
    cost: Decimal | None = None

    def to_json(self) -> dict[str, Any]:
        error = self.error.to_json() if self.error else None
        return {"artifactId": self.artifact_id, "status": self.status, "error": error}


@dataclass(frozen=True, slots=True)
class Generation:
    id: str
    organization: str
    provider: str
    kind: MediaKind
    model: str
    input: Mapping[str, Any]
    count: int
    tags: tuple[str, ...]
    created_at: int
    timeout_at: int
    status: GenerationStatus = GenerationStatus.ACTIVE
    closes_at: int | None = None
    finished_at: int | None = None
    tasks: tuple[Task, ...] = ()

    def task(self, artifact_id: str) -> Task | None:
        return next((task for task in self.tasks if task.artifact_id == artifact_id), None)

    def with_task(self, changed: Task) -> "Generation":
        tasks = tuple(changed if t.artifact_id == changed.artifact_id else t for t in self.tasks)
        return replace(self, tasks=tasks)

    @property
    def ready(self) -> int:
        return sum(task.status is TaskStatus.READY for task in self.tasks)

    @property
    def cost(self) -> Decimal:
        return sum((task.cost for task in self.tasks if task.cost is not None), Decimal(0))

    @property
    def deadline(self) -> int:
        """When whatever is still under way is given up."""
        return self.timeout_at if self.closes_at is None else self.closes_at


def check_moves(before: Generation, after: Generation) -> None:
    """Asked where a generation is written."""
    if before.status is not after.status:
        MACHINE.check(before.status, after.status)
    for old, new in zip(before.tasks, after.tasks, strict=True):
        if old.status is not new.status:
            TASK_MACHINE.check(old.status, new.status)


# Afterwards


@dataclass(frozen=True, slots=True)
class FinishedGeneration:
    """`tasks` are as they ended."""

    id: str
    organization: str
    status: str
    provider: str
    kind: str
    model: str
    input: Mapping[str, Any]
    count: int
    artifact_count: int
    tasks: list[dict[str, Any]]
    cost: Decimal
    created_at: int
    timeout_at: int
    completed_at: int
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Artifact:
    id: str
    organization: str
    generation_id: str
    content_type: str
    size_bytes: int
    checksum: str
    metadata: Mapping[str, Any]
    created_at: int
    tags: tuple[str, ...] = ()


def key_of(artifact_id: str) -> str:
    """The object that holds an artifact's bytes."""
    return f"artifacts/{artifact_id}"


@dataclass(frozen=True, slots=True)
class ProviderSpending:
    provider: str
    generations: int
    artifacts: int
    cost: Decimal


@dataclass(frozen=True, slots=True)
class DaySpending(ProviderSpending):
    """Of one day of UTC, by its number since 1970."""

    day: int


# History

IGNORED = "webhook_ignored"


def subject(generation_id: str) -> str:
    return f"generation:{generation_id}"


def started(generation: Generation, actor: Mapping[str, str]) -> Line:
    facts = {
        "id": generation.id,
        "kind": generation.kind,
        "model": generation.model,
        "count": generation.count,
        "provider": generation.provider,
        "actor": dict(actor),
    }
    return Line(subject(generation.id), "generation_started", facts)


def artifact_ready(generation: Generation, artifact_id: str, content_type: str) -> Line:
    facts = {"id": artifact_id, "generationId": generation.id, "contentType": content_type}
    return _of_task(generation.id, artifact_id, "artifact_ready", facts)


def artifact_failed(generation: Generation, task: Task) -> Line:
    facts = {"error": task.error.to_json() if task.error else None}
    return _of_task(generation.id, task.artifact_id, "artifact_failed", facts)


def finished(generation: Generation) -> Line:
    facts = {
        "id": generation.id,
        "status": generation.status,
        "artifactCount": generation.ready,
        "to": generation.status,
    }
    return Line(subject(generation.id), "generation_finished", facts)


def task_attempt(generation: Generation, task: Task, error: TaskError, seconds: float) -> Line:
    facts = {
        "attempt": task.attempt,
        "error": error.to_json(),
        "reason": f"next attempt in {seconds:.1f} s",
    }
    return _of_task(generation.id, task.artifact_id, "task_attempt", facts)


def webhook_accepted(generation: Generation, artifact_id: str) -> Line:
    return _of_task(generation.id, artifact_id, "webhook_accepted", {})


def webhook_ignored(generation_id: str, artifact_id: str | None, reason: str) -> Line:
    facts = {"generationId": generation_id, "artifactId": artifact_id, "reason": reason}
    return Line(subject(generation_id), IGNORED, facts)


def timed_out(generation: Generation) -> Line:
    return Line(subject(generation.id), "generation_timed_out", {"reason": "its time is over"})


def cancelled(generation: Generation, actor: Mapping[str, str]) -> Line:
    return Line(subject(generation.id), "generation_cancelled", {"actor": dict(actor)})


def artifact_deleted(artifact: Artifact, actor: Mapping[str, str]) -> Line:
    facts = {"actor": dict(actor)}
    return _of_task(artifact.generation_id, artifact.id, "artifact_deleted", facts)


def _of_task(generation_id: str, artifact_id: str, kind: str, facts: dict[str, Any]) -> Line:
    facts = {"artifactId": artifact_id, "generationId": generation_id, **facts}
    return Line(subject(generation_id), kind, facts, also=f"artifact:{artifact_id}")
