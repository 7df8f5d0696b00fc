"""Ingest's background work: bringing uploads to permanent storage, and sweeping the directory."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.queue.jobs import HOUR, Backoff, JobKind, Nothing, Schedule
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class OffloadPayload:
    imageId: str  # noqa: N815 - payloads are JSON that people read


OFFLOAD = JobKind(
    "ingest.offload",
    payload=OffloadPayload,
    limit=32,  # they wait for the disk and for each other's statements more than they work
    retry=Backoff(attempts=12, cap=600),  # a store may be away for a while; the file is safe
    subject=lambda offloading: f"image:{offloading.imageId}",
)
# What a late write took from a bucket comes from its file again; see objects/reconcile.py.
PUT_BACK = JobKind(
    "ingest.put_back",
    payload=OffloadPayload,
    limit=2,
    retry=Backoff(attempts=12, cap=600),
    subject=lambda offloading: f"image:{offloading.imageId}",
)
SWEEP = JobKind("ingest.sweep", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (OFFLOAD, PUT_BACK, SWEEP)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(SWEEP, HOUR, per_node=True),)
