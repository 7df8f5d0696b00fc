"""The lines of history a generation writes; the public ones as lifecycle.MESSAGES shapes them."""

from collections.abc import Mapping
from typing import Any

from safelight.generations.lifecycle import Generation, Task, TaskError
from safelight.infra.history import Line


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


def ready(generation: Generation, artifact_id: str, content_type: str) -> Line:
    facts = {"id": artifact_id, "generationId": generation.id, "contentType": content_type}
    return _of_task(generation, artifact_id, "artifact_ready", facts)


def failed(generation: Generation, task: Task) -> Line:
    facts = {
        "artifactId": task.artifact_id,
        "generationId": generation.id,
        "error": task.error.to_json() if task.error else None,
    }
    return _of_task(generation, task.artifact_id, "artifact_failed", facts)


def finished(generation: Generation) -> Line:
    facts = {
        "id": generation.id,
        "status": generation.status,
        "artifactCount": generation.ready,
        "to": generation.status,
    }
    return Line(subject(generation.id), "generation_finished", facts)


def attempted(generation: Generation, task: Task, error: TaskError, seconds: float) -> Line:
    facts = {
        "attempt": task.attempt,
        "error": error.to_json(),
        "reason": f"next attempt in {seconds:.1f} s",
    }
    return _of_task(generation, task.artifact_id, "task_attempt", facts)


def reported(generation: Generation, artifact_id: str) -> Line:
    return _of_task(generation, artifact_id, "webhook_accepted", {})


def ignored(generation: Generation, artifact_id: str | None, reason: str) -> Line:
    return webhook_ignored(generation.id, artifact_id, reason)


def webhook_ignored(generation_id: str, artifact_id: str | None, reason: str) -> Line:
    facts = {"generationId": generation_id, "artifactId": artifact_id, "reason": reason}
    return Line(subject(generation_id), "webhook_ignored", facts)


def timed_out(generation: Generation) -> Line:
    return Line(subject(generation.id), "generation_timed_out", {"reason": "its time is over"})


def cancelled(generation: Generation, actor: Mapping[str, str]) -> Line:
    return Line(subject(generation.id), "generation_cancelled", {"actor": dict(actor)})


def deleted(generation_id: str, artifact_id: str, actor: Mapping[str, str]) -> Line:
    facts = {"artifactId": artifact_id, "generationId": generation_id, "actor": dict(actor)}
    return Line(subject(generation_id), "artifact_deleted", facts, also=f"artifact:{artifact_id}")


def _of_task(generation: Generation, artifact_id: str, kind: str, facts: dict[str, Any]) -> Line:
    facts = {"artifactId": artifact_id, "generationId": generation.id, **facts}
    return Line(subject(generation.id), kind, facts, also=f"artifact:{artifact_id}")
