"""Ingest's background work: bringing uploads to permanent storage, and sweeping the directory."""

from typing import Any

from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import HOUR, Backoff, Done, Job, JobKind, Nothing, Schedule, Verdict
from safelight.ingest.offload import Offload, Offloading
from safelight.ingest.sweep import Sweep

OFFLOAD = JobKind(
    "ingest.offload",
    payload=Offloading,
    limit=8,
    retry=Backoff(attempts=12, cap=600),  # a store may be away for a while; the file is safe
    subject=lambda offloading: f"image:{offloading.imageId}",
)
SWEEP = JobKind("ingest.sweep", payload=Nothing, limit=1)

KINDS: tuple[JobKind[Any], ...] = (OFFLOAD, SWEEP)
SCHEDULES = (Schedule(SWEEP, HOUR, per_node=True),)


def handlers(offload: Offload, sweep: Sweep) -> tuple[Handler[Any], ...]:
    async def run_sweep(_: Job[Nothing]) -> Verdict:
        await sweep.run()
        return Done()

    return Handler(OFFLOAD, offload.handle), Handler(SWEEP, run_sweep)
