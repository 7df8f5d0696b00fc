"""Keeps the ingest directory from growing, without ever deleting the only copy of an image."""

import asyncio
from collections.abc import Iterable
from enum import Enum

import structlog

from safelight.infra.db import Database
from safelight.infra.failpoints import hit
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.ingest import repo
from safelight.ingest.directory import Found, IngestDirectory
from safelight.ingest.lifecycle import Status

_BATCH = 1000


class Fate(Enum):
    KEEP = "keep"
    REMOVE = "remove"
    REPORT = "report"


def decide(found: Found, status: Status | None, *, now_ms: int, ttl_ms: int, alone: bool) -> Fate:
    """`status` is the image's, None when there is no record. `alone`: no other process can be
    writing here, so what has no record is a leftover of an earlier life, whatever its age."""
    old = now_ms - found.modified_ms >= ttl_ms
    if found.partial or status is None:
        return Fate.REMOVE if old or alone else Fate.KEEP
    if status is Status.INGESTED or status is Status.UPLOADED:
        return Fate.REPORT if old else Fate.KEEP
    return Fate.REMOVE if old else Fate.KEEP


class Sweep:
    def __init__(
        self,
        db: Database,
        directory: IngestDirectory,
        clock: Clock,
        metrics: Metrics,
        ttl_seconds: float,
    ) -> None:
        self._db = db
        self._directory = directory
        self._clock = clock
        self._metrics = metrics
        self._ttl_ms = int(ttl_seconds * 1000)

    async def at_start(self) -> int:
        """Removes an earlier life's leftovers at once, if no other process uses the directory."""
        alone = self._directory.lock_exclusive()
        try:
            return await self.run(alone=alone)
        finally:
            self._directory.lock_shared()

    async def run(self, *, alone: bool = False) -> int:
        """Returns how many files it removed."""
        everything = await asyncio.to_thread(lambda: list(self._directory.files()))
        removed = overdue = 0
        for start in range(0, len(everything), _BATCH):
            some = everything[start : start + _BATCH]
            fates = await self._judge(some, alone=alone)
            removed += await asyncio.to_thread(_remove, fates[Fate.REMOVE])
            overdue += len(fates[Fate.REPORT])
        self._metrics.ingest_overdue.set(overdue)
        if overdue:
            structlog.get_logger().warning(
                "uploads are still waiting for storage after the sweep's age; they are kept",
                count=overdue,
            )
        return removed

    async def _judge(self, some: list[Found], *, alone: bool) -> dict[Fate, list[Found]]:
        known = await repo.statuses(self._db, [found.image_id for found in some])
        fates: dict[Fate, list[Found]] = {fate: [] for fate in Fate}
        now = self._clock.now_ms()
        for found in some:
            status = known.get(found.image_id)
            fate = decide(found, status, now_ms=now, ttl_ms=self._ttl_ms, alone=alone)
            fates[fate].append(found)
        return fates


def _remove(files: Iterable[Found]) -> int:
    count = 0
    for found in files:
        hit("ingest.sweep")
        found.path.unlink(missing_ok=True)
        count += 1
    return count
