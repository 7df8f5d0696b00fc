"""The store's background work: delivering events, and looking after files and unfinished writes."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.queue.jobs import HOUR, MINUTE, STEADFAST, JobKind, Nothing, Schedule
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class DeliverPayload:
    eventId: int  # noqa: N815 - payloads are JSON that people read
    name: str


@dataclass(frozen=True, slots=True)
class RejectedNoticePayload:
    """With what was sent, as far as a person reads, and why it cannot be taken."""

    noticeId: int  # noqa: N815 - likewise
    reason: str = ""
    body: str = ""


DELIVER = JobKind(
    "objects.deliver",
    payload=DeliverPayload,
    limit=16,
    retry=STEADFAST,
    subject=lambda delivery: f"upload:{delivery.name}",
)
# Born a dead letter. Redriven, it ends as one again, unless the notice can be read after all.
REJECTED = JobKind("objects.rejected", payload=RejectedNoticePayload)
COLLECT = JobKind("objects.collect", payload=Nothing, limit=1)
SCRUB = JobKind("objects.scrub", payload=Nothing, limit=1)
RECONCILE = JobKind("objects.settle", payload=Nothing, limit=1)
PURGE = JobKind("objects.tidy", payload=Nothing, limit=1)
ABORT = JobKind("objects.abort", payload=Nothing, limit=1)
# Where a queue has the bucket's notifications. It waits for them, so nobody waits for it.
PULL = JobKind("objects.pull", payload=Nothing, limit=1, waits_itself=True)

UPKEEP = (COLLECT, SCRUB, RECONCILE, PURGE, ABORT)
KINDS: tuple[JobKind[Any], ...] = (DELIVER, REJECTED, PULL, *UPKEEP)


PULL_SECONDS = 5


def schedules(settings: Settings) -> tuple[Schedule, ...]:
    return (
        *((Schedule(PULL, PULL_SECONDS),) if settings.notifications_url else ()),
        Schedule(COLLECT, HOUR),
        Schedule(SCRUB, HOUR),
        Schedule(RECONCILE, MINUTE),
        Schedule(PURGE, HOUR),
        Schedule(ABORT, HOUR),
    )
