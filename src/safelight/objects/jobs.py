"""The store's background work: delivering events, and looking after files and unfinished writes."""

from typing import Any

from safelight.infra.jobs import HOUR, MINUTE, Backoff, Done, Handler, Job, JobKind, Nothing, Schedule
from safelight.objects.collect import Collect
from safelight.objects.deliver import Deliver, Delivery
from safelight.objects.scrub import Scrub
from safelight.objects.settle import Settle

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

KINDS: tuple[JobKind[Any], ...] = (DELIVER, COLLECT, SCRUB, SETTLE)
SCHEDULES = (Schedule(COLLECT, HOUR), Schedule(SCRUB, HOUR), Schedule(SETTLE, MINUTE))
