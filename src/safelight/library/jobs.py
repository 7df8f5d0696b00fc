"""The library's background work: looking whether it is what the store holds."""

from typing import Any

from safelight.infra.queue.jobs import MINUTE, JobKind, Nothing, Schedule
from safelight.settings import Settings

RECONCILE = JobKind("library.reconcile", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (RECONCILE,)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(RECONCILE, 10 * MINUTE),)
