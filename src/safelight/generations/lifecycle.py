"""The states of a generation in flight and of its tasks, one task per artifact."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

# What the world is told, and the fields of each message.
MESSAGES = {
    "generation_started": ("id", "kind", "model", "count"),
    "artifact_ready": ("id", "generationId", "contentType"),
    "artifact_failed": ("artifactId", "generationId", "error"),
    "generation_finished": ("id", "status", "artifactCount"),
}


class Kind(StrEnum):
    IMAGE = "image"
    VIDEO = "video"


class Status(StrEnum):
    ACTIVE = "active"
    COMPLETING = "completing"  # the timer has fired; what had arrived by then is still being stored
    READY = "ready"  # over, with at least one artifact
    FAILED = "failed"  # over, with none

    @property
    def over(self) -> bool:
        return self in {Status.READY, Status.FAILED}


class TaskStatus(StrEnum):
    PENDING = "pending"  # nothing has been sent, or what was sent is known to have been turned away
    SUBMITTED = "submitted"  # a call has left, or is about to; the provider may be at work
    STREAMING = "streaming"  # the provider has delivered; the bytes are being stored
    READY = "ready"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        return self in {TaskStatus.READY, TaskStatus.FAILED}


class Code(StrEnum):
    """Why a task failed."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    PROVIDER_ERROR = "provider_error"
    FETCH_REFUSED = "fetch_refused"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class TaskError:
    code: Code
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


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
    kind: Kind
    model: str
    input: Mapping[str, Any]
    count: int
    tags: tuple[str, ...]
    created_at: int
    timeout_at: int
    status: Status = Status.ACTIVE
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
