"""Classification's background work: one run per marker, drawing what was not drawn with it, and
classifying anew."""

import os
from dataclasses import dataclass
from typing import Any

from safelight.infra.queue.jobs import DAY, MINUTE, STEADFAST, JobKind, Nothing, Schedule
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class RunPayload:
    name: str
    idempotencyKey: str  # noqa: N815 - payloads are JSON that people read
    run: int


RUN = JobKind(
    "classification.run",
    payload=RunPayload,
    # One per core works; as many again are reading their bytes or writing their results.
    limit=2 * (os.cpu_count() or 1),
    ahead=12,  # so that a backlog is not claimed one by one
    retry=STEADFAST,
    subject=lambda payload: f"upload:{payload.name}",
)


@dataclass(frozen=True, slots=True)
class DrawPayload:
    name: str
    idempotencyKey: str  # noqa: N815 - payloads are JSON that people read


# What an entry lacks that has its label: one at a time, and only while no run is at work here.
DRAW = JobKind(
    "classification.draw",
    payload=DrawPayload,
    limit=1,
    retry=STEADFAST,
    subject=lambda payload: f"upload:{payload.name}",
)
BACKFILL = JobKind("classification.backfill", payload=Nothing, limit=1)


@dataclass(frozen=True, slots=True)
class ReclassifyPayload:
    id: str


# Begins runs a few at a time, and looks what has become of them.
RECLASSIFY = JobKind(
    "classification.reclassify",
    payload=ReclassifyPayload,
    limit=1,
    retry=STEADFAST,
    subject=lambda payload: f"reclassification:{payload.id}",
)

COMPARE = JobKind("classification.compare", payload=Nothing, limit=1, waits_itself=True)
FORGET = JobKind("classification.forget", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (RUN, DRAW, BACKFILL, RECLASSIFY, COMPARE, FORGET)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return (Schedule(BACKFILL, MINUTE), Schedule(COMPARE, MINUTE), Schedule(FORGET, DAY))
