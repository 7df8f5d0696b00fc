"""Generations and tasks for tests of what becomes of them."""

from dataclasses import replace
from typing import Any

from safelight.generations.change import (
    GenerationChange,
)
from safelight.generations.lifecycle import (
    Generation,
    Media,
    MediaKind,
    Task,
    TaskError,
    TaskErrorCode,
    TaskStatus,
)

NOW, END = 1_000_000, 1_300_000
MEDIA = Media("https://im.runware.ai/a.png", {"cost": 0.1})
ERROR = TaskError(TaskErrorCode.REFUSED, "no")
OVER = (TaskStatus.READY, TaskStatus.FAILED)
ACTOR = {"type": "user", "name": "ada"}


def a_task(name: str = "a", **facts: Any) -> Task:
    status = facts.pop("status", TaskStatus.SUBMITTED)
    media = MEDIA if status is TaskStatus.STREAMING else None
    facts = {"provider_task_id": f"id-{name}", "attempt": 1, "media": media, **facts}
    return Task(name, facts.pop("position", 0), status, **facts)


def a_generation(*tasks: Task, kind: MediaKind = MediaKind.VIDEO, **facts: Any) -> Generation:
    placed = tuple(replace(task, position=at) for at, task in enumerate(tasks or (a_task(),)))
    return Generation(
        "g", "acme", "runware", kind, "m", {"prompt": "p"}, len(placed), (), NOW - 1000, END,
        tasks=placed, **facts,
    )  # fmt: skip


def statuses(change: GenerationChange) -> list[str]:
    return [task.status.value for task in change.after.tasks]


def types(change: GenerationChange) -> list[str]:
    return [line.type for line in change.lines]
