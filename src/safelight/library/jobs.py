"""The library's background work: looking whether it is what the store holds, taking away the large
thumbnails of entries that are gone, and originals that have had their time."""

from typing import Any

from safelight.infra.queue.jobs import MINUTE, JobKind, Nothing, Schedule
from safelight.settings import Settings

RECONCILE = JobKind("library.reconcile", payload=Nothing, limit=1)

COLLECT_THUMBNAILS = JobKind("library.collect_thumbnails", payload=Nothing, limit=1)

RETAIN = JobKind("library.retain", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (RECONCILE, COLLECT_THUMBNAILS, RETAIN)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return tuple(Schedule(kind, 10 * MINUTE) for kind in KINDS)
