"""Generations and artifacts as clients see them: the same shape in flight and afterwards."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from safelight.generations.artifacts.repo import Artifact, Made, Spent
from safelight.generations.lifecycle import Generation
from safelight.infra.injected import iso


def show_active(generation: Generation) -> dict[str, Any]:
    done = generation.finished_at
    return {
        "id": generation.id,
        "status": generation.status,
        "provider": generation.provider,
        "kind": generation.kind,
        "model": generation.model,
        "input": generation.input,
        "tags": sorted(generation.tags),
        "count": generation.count,
        "artifactCount": generation.ready,
        **_progress([task.to_json() for task in generation.tasks]),
        "cost": _dollars(generation.cost),
        "createdAt": iso(generation.created_at),
        "timeoutAt": iso(generation.timeout_at),
        "completedAt": None if done is None else iso(done),
    }


def show_made(made: Made) -> dict[str, Any]:
    return {
        "id": made.id,
        "status": made.status,
        "provider": made.provider,
        "kind": made.kind,
        "model": made.model,
        "input": made.input,
        "tags": list(made.tags),
        "count": made.count,
        "artifactCount": made.artifact_count,
        **_progress(made.tasks),
        "cost": _dollars(made.cost),
        "createdAt": iso(made.created_at),
        "timeoutAt": iso(made.timeout_at),
        "completedAt": iso(made.completed_at),
    }


def show_artifact(artifact: Artifact) -> dict[str, Any]:
    return {
        "id": artifact.id,
        "generationId": artifact.generation_id,
        "contentType": artifact.content_type,
        "sizeBytes": artifact.size_bytes,
        "checksum": artifact.checksum,
        "metadata": artifact.metadata,
        "tags": list(artifact.tags),
        "createdAt": iso(artifact.created_at),
    }


def show_spending(spent: Sequence[Spent]) -> dict[str, Any]:
    return {
        "currency": "USD",
        "total": _dollars(sum((one.cost for one in spent), Decimal(0))),
        "providers": [
            {
                "provider": one.provider,
                "generations": one.generations,
                "artifacts": one.artifacts,
                "cost": _dollars(one.cost),
            }
            for one in spent
        ],
    }


def _progress(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    ended = Counter(task["status"] for task in tasks)
    progress = {"ready": ended["ready"], "failed": ended["failed"], "total": len(tasks)}
    return {"progress": progress, "tasks": tasks}


def _dollars(amount: Decimal) -> float:
    return float(amount)
