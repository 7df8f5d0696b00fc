"""The store's background work: delivering events, and looking after files and unfinished writes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import (
    HOUR,
    MINUTE,
    Backoff,
    Done,
    Job,
    JobKind,
    Nothing,
    Schedule,
    Verdict,
)
from safelight.objects.deliver import Deliver, Delivery

DELIVER = JobKind(
    "objects.deliver",
    payload=Delivery,
    limit=16,
    retry=Backoff(attempts=4),
    subject=lambda delivery: f"upload:{delivery.name}",
)
COLLECT = JobKind("objects.collect", payload=Nothing, limit=1)
SCRUB = JobKind("objects.scrub", payload=Nothing, limit=1)
SETTLE = JobKind("objects.settle", payload=Nothing, limit=1)
TIDY = JobKind("objects.tidy", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (DELIVER, COLLECT, SCRUB, SETTLE, TIDY)
SCHEDULES = (
    Schedule(COLLECT, HOUR),
    Schedule(SCRUB, HOUR),
    Schedule(SETTLE, MINUTE),
    Schedule(TIDY, HOUR),
)

Upkeep = Callable[[], Awaitable[object]]


def handlers(
    deliver: Deliver, upkeep: Mapping[JobKind[Nothing], Upkeep]
) -> tuple[Handler[Any], ...]:
    """A store that needs none of some upkeep has jobs that do nothing."""
    kept = [_handler(kind, upkeep.get(kind)) for kind in (COLLECT, SCRUB, SETTLE, TIDY)]
    return (Handler(DELIVER, deliver.handle), *kept)


def _handler(kind: JobKind[Nothing], run: Upkeep | None) -> Handler[Nothing]:
    async def handle(_: Job[Nothing]) -> Verdict:
        if run is not None:
            await run()
        return Done()

    return Handler(kind, handle)
