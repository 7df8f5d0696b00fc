"""Generations, artifacts and models as clients see them. A generation has the same shape in flight
and afterwards."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from safelight.generations.lifecycle import (
    Artifact,
    FinishedGeneration,
    Generation,
    MediaKind,
    ProviderSpending,
)
from safelight.generations.providers.registry import Providers
from safelight.generations.studio.catalogue import DEFAULT_SIZES, MODELS
from safelight.infra.injected import iso


def show_active(generation: Generation, artifacts: int) -> dict[str, Any]:
    """`artifacts`: how many of them are there."""
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
        "artifactCount": artifacts,
        **_progress([task.to_json() for task in generation.tasks]),
        "cost": _dollars(generation.cost),
        "createdAt": iso(generation.created_at),
        "timeoutAt": iso(generation.timeout_at),
        "completedAt": None if done is None else iso(done),
    }


def show_finished(done: FinishedGeneration, artifacts: int) -> dict[str, Any]:
    return {
        "id": done.id,
        "status": done.status,
        "provider": done.provider,
        "kind": done.kind,
        "model": done.model,
        "input": done.input,
        "tags": list(done.tags),
        "count": done.count,
        "artifactCount": artifacts,
        **_progress(done.tasks),
        "cost": _dollars(done.cost),
        "createdAt": iso(done.created_at),
        "timeoutAt": iso(done.timeout_at),
        "completedAt": iso(done.completed_at),
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


def show_spending(spent: Sequence[ProviderSpending]) -> dict[str, Any]:
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


def show_models(providers: Providers) -> dict[str, Any]:
    """What can be asked for here: the studio's catalogue, and the vendors that have a key."""
    return {
        "items": [
            {
                "id": model.id,
                "provider": "studio",
                "title": model.title,
                "description": model.description,
                "kinds": list(MediaKind),
                "example": model.example,
                "sizes": {kind: list(size) for kind, size in DEFAULT_SIZES.items()},
            }
            for model in MODELS
        ],
        "nextCursor": None,
        "providers": [
            {
                "name": known.name,
                "configured": (offered := providers.find(known.name)) is not None,
                "kinds": sorted(offered.kinds) if offered else [],
                "models": known.hint,
            }
            for known in providers.known
        ],
    }


def _progress(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    ended = Counter(task["status"] for task in tasks)
    progress = {"ready": ended["ready"], "failed": ended["failed"], "total": len(tasks)}
    return {"progress": progress, "tasks": tasks}


def _dollars(amount: Decimal) -> float:
    return float(amount)
