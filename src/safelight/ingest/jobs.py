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
    limit=8,
    retry=Backoff(attempts=12, cap=600),  # a store may be away for a while; the file is safe
    subject=lambda offloading: f"image:{offloading.imageId}",
)
SWEEP = JobKind("ingest.sweep", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (OFFLOAD, SWEEP)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(SWEEP, HOUR, per_node=True),)
