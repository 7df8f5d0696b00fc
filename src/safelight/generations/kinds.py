"""The jobs of generations: names, payloads and limits. Handlers are joined to them in jobs.py."""

from dataclasses import dataclass
from typing import Any

from safelight.generations.providers.registry import NAMES
from safelight.infra.queue.jobs import HOUR, Backoff, JobKind, Nothing, Schedule

MOST_AT_ONCE = 64  # a process's tasks of one provider; SAFELIGHT_GENERATION_CONCURRENCY is less


@dataclass(frozen=True, slots=True)
class Working:
    """The payload of a task's jobs."""

    generationId: str  # noqa: N815 - payloads are JSON that people read
    artifactId: str  # noqa: N815 - as above


@dataclass(frozen=True, slots=True)
class Waking:
    """The payload of a generation's timer."""

    generationId: str  # noqa: N815 - payloads are JSON that people read


@dataclass(frozen=True, slots=True)
class Delivering:
    """The payload of the studio's own webhooks."""

    generationId: str  # noqa: N815 - payloads are JSON that people read
    artifactId: str  # noqa: N815 - as above
    taskId: str  # noqa: N815 - as above
    outcome: str


def _subject(payload: Working | Waking | Delivering) -> str:
    return f"generation:{payload.generationId}"


# One kind per provider, so that a slow one takes no other's turns.
WORK: dict[str, JobKind[Working]] = {
    name: JobKind(
        f"generations.{name}",
        payload=Working,
        limit=MOST_AT_ONCE,
        retry=Backoff(attempts=20, cap=30),
        subject=_subject,
    )
    for name in NAMES
}
# Generations end by it: it is never given up.
ALARM = JobKind(
    "generations.alarm",
    payload=Waking,
    limit=16,
    retry=Backoff(attempts=10_000, cap=60),
    subject=_subject,
)
STOP = JobKind(
    "generations.stop",
    payload=Working,
    limit=8,
    retry=Backoff(attempts=5, cap=60),
    subject=_subject,
)
DELIVER = JobKind(
    "generations.deliver",
    payload=Delivering,
    limit=8,
    retry=Backoff(attempts=12, cap=60),
    subject=_subject,
)
PURGE = JobKind("generations.purge", payload=Nothing, limit=1)
ORPHANS = JobKind("generations.orphans", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (*WORK.values(), ALARM, STOP, DELIVER, PURGE, ORPHANS)
SCHEDULES = (Schedule(PURGE, HOUR), Schedule(ORPHANS, HOUR))
