"""The jobs of generations: payloads, kinds with their retry policies, and what runs by the clock.

A task's job returns on its own account too, when a provider asks for patience or has not finished;
decide.py says when by the same policies, so that changing one here changes it everywhere.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from safelight.generations.lifecycle import subject
from safelight.generations.providers.registry import PROVIDERS
from safelight.infra.queue.jobs import HOUR, Backoff, JobKind, Nothing, Schedule
from safelight.settings import Settings

MOST_AT_ONCE = 64  # a process's tasks of one provider; SAFELIGHT_GENERATION_CONCURRENCY is less

WORK_RETRY = Backoff(attempts=20, first=1, cap=30)
POLL = Backoff(first=1, cap=10, factor=1.5)  # between questions about what takes its time
LONGEST_HINT = 600.0


@dataclass(frozen=True, slots=True)
class TaskPayload:
    generationId: str  # noqa: N815 - payloads are JSON that people read
    artifactId: str  # noqa: N815 - as above


@dataclass(frozen=True, slots=True)
class AlarmPayload:
    """A generation's timer."""

    generationId: str  # noqa: N815 - payloads are JSON that people read


@dataclass(frozen=True, slots=True)
class StudioWebhookPayload:
    generationId: str  # noqa: N815 - payloads are JSON that people read
    artifactId: str  # noqa: N815 - as above
    taskId: str  # noqa: N815 - as above
    outcome: str


def _subject(payload: TaskPayload | AlarmPayload | StudioWebhookPayload) -> str:
    return subject(payload.generationId)


@cache
def work(provider: str) -> JobKind[TaskPayload]:
    """One kind per provider, so that a slow one takes no other's turns."""
    return JobKind(
        f"generations.{provider}",
        payload=TaskPayload,
        limit=MOST_AT_ONCE,
        retry=WORK_RETRY,
        subject=_subject,
    )


def next_try(attempt: int, hint: float | None = None) -> float:
    """Seconds. A provider's own hint is honoured, unless it would have us hammer."""
    seconds = WORK_RETRY.longest(attempt)
    return seconds if hint is None else max(min(hint, LONGEST_HINT), seconds / 2)


def next_question(attempt: int) -> float:
    return POLL.longest(attempt)


# Generations end by it: it is never given up.
ALARM = JobKind(
    "generations.alarm",
    payload=AlarmPayload,
    limit=16,
    retry=Backoff(attempts=10_000, cap=60),
    subject=_subject,
)
STOP = JobKind(
    "generations.stop",
    payload=TaskPayload,
    limit=8,
    retry=Backoff(attempts=5, cap=60),
    subject=_subject,
)
DELIVER = JobKind(
    "generations.deliver",
    payload=StudioWebhookPayload,
    limit=8,
    retry=Backoff(attempts=12, cap=60),
    subject=_subject,
)
PURGE = JobKind("generations.purge", payload=Nothing, limit=1)
ORPHANS = JobKind("generations.orphans", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (
    *(work(provider.name) for provider in PROVIDERS),
    ALARM,
    STOP,
    DELIVER,
    PURGE,
    ORPHANS,
)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return Schedule(PURGE, HOUR), Schedule(ORPHANS, HOUR)
