"""The operator's view as the API answers it."""

from typing import Any

from typing_extensions import TypedDict

from safelight.http.described import SubjectAnswer


class HealthAnswer(TypedDict):
    status: str


class ChildrenAnswer(TypedDict):
    """Which protections of children this system does not offer."""

    lacking: list[str]


class ReadyAnswer(TypedDict):
    ready: bool
    database: str
    objectStore: str
    engine: str
    children: ChildrenAnswer


class HourAnswer(TypedDict):
    hour: str
    processed: int
    failed: int
    retried: int


class ThroughputAnswer(TypedDict):
    recentHours: list[HourAnswer]


class TimeoutHourAnswer(TypedDict):
    hour: str
    classification: str
    count: int
    totalDurationMs: int


class TimeoutTotalAnswer(TypedDict):
    count: int
    totalDurationMs: int


class TimeoutsAnswer(TypedDict):
    hours: list[TimeoutHourAnswer]
    totals: dict[str, TimeoutTotalAnswer]


class QueueMetricsAnswer(TypedDict):
    throughput: ThroughputAnswer
    timeouts: TimeoutsAnswer


class QueueAnswer(TypedDict):
    name: str
    queued: int
    running: int
    delayed: int
    away: int  # of those: they wait for something that is not there, and spend no attempt
    deadLetters: int
    oldestSeconds: float | None


class StuckAnswer(TypedDict):
    submissionId: str
    state: str
    stage: str
    stuckForMs: int
    classification: str | None
    away: bool
    attempt: int
    nextRetryAfter: str | None


class QueueStatusAnswer(TypedDict):
    queues: list[QueueAnswer]
    stuck: list[StuckAnswer]


class LetterError(TypedDict):
    code: str
    message: str


class DeadLetterAnswer(TypedDict):
    id: int
    kind: str
    organizationId: str | None
    subject: SubjectAnswer | None
    error: LetterError
    attempts: int
    firstAt: str
    diedAt: str
    payload: dict[str, Any]


class SettledAnswer(TypedDict):
    id: int


class RedrivenAnswer(TypedDict):
    redriven: int
    remaining: int


class DiscardedAnswer(TypedDict):
    discarded: int
    remaining: int
