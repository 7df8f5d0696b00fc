"""Generations, artifacts, models and spending as the API answers them."""

from typing import Any, Literal

from typing_extensions import TypedDict

from safelight.generations.lifecycle import GenerationStatus, MediaKind, TaskStatus


class OrderedAnswer(TypedDict):
    id: str


class TaskErrorAnswer(TypedDict):
    code: str
    message: str


class TaskAnswer(TypedDict):
    artifactId: str
    status: TaskStatus
    error: TaskErrorAnswer | None


class ProgressAnswer(TypedDict):
    ready: int
    failed: int
    total: int


class GenerationAnswer(TypedDict):
    id: str
    status: GenerationStatus
    provider: str
    kind: MediaKind
    model: str
    input: dict[str, Any]
    tags: list[str]
    count: int
    artifactCount: int
    progress: ProgressAnswer
    tasks: list[TaskAnswer]
    cost: float
    createdAt: str
    timeoutAt: str
    completedAt: str | None


class ArtifactAnswer(TypedDict):
    id: str
    generationId: str
    contentType: str
    sizeBytes: int
    checksum: str
    metadata: dict[str, Any]
    tags: list[str]
    createdAt: str


class ProviderSpendingAnswer(TypedDict):
    provider: str
    generations: int
    artifacts: int
    cost: float


class SpendingAnswer(TypedDict):
    currency: Literal["USD"]
    total: float
    providers: list[ProviderSpendingAnswer]


class ModelAnswer(TypedDict):
    id: str
    provider: str
    title: str
    description: str
    kinds: list[MediaKind]
    example: str
    sizes: dict[str, list[int]]


class OfferedProvider(TypedDict):
    name: str
    configured: bool
    kinds: list[MediaKind]
    models: str


class ModelsAnswer(TypedDict):
    items: list[ModelAnswer]
    nextCursor: None
    providers: list[OfferedProvider]
