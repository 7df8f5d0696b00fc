"""The library's background work: looking whether it is what the store holds, and taking away the
large thumbnails of entries that are gone."""

from typing import Any

from safelight.infra.queue.jobs import MINUTE, JobKind, Nothing, Schedule
from safelight.settings import Settings

RECONCILE = JobKind("library.reconcile", payload=Nothing, limit=1)

COLLECT_THUMBNAILS = JobKind("library.collect_thumbnails", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (RECONCILE, COLLECT_THUMBNAILS)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(RECONCILE, 10 * MINUTE), Schedule(COLLECT_THUMBNAILS, 10 * MINUTE))
