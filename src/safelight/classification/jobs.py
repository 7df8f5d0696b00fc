"""Classification's background work: one run per marker."""

import os
from dataclasses import dataclass
from typing import Any

from safelight.infra.queue.jobs import STEADFAST, JobKind, Schedule
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

KINDS: tuple[JobKind[Any], ...] = (RUN,)


def schedules(_: Settings) -> tuple[Schedule, ...]:
    return ()
