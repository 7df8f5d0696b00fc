"""Keeps the ingest directory from growing, without ever deleting the only copy of an image."""

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import assert_never

import structlog

from safelight.infra.db import Database
from safelight.infra.failpoints import hit
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.ingest import repo
from safelight.ingest.directory import IngestDirectory, IngestFile
from safelight.ingest.lifecycle import ImageStatus

_BATCH = 1000


class Fate(Enum):
    KEEP = "keep"
    REMOVE = "remove"
    REPORT = "report"


def fate_of(
    file: IngestFile, status: ImageStatus | None, *, now_ms: int, ttl_ms: int, alone: bool
) -> Fate:
    """`status` is the image's, None when there is no record. `alone`: no other process can be
    writing here, so what has no record is a leftover of an earlier life, whatever its age."""
    old = now_ms - file.modified_ms >= ttl_ms
    if file.partial or status is None:
        return Fate.REMOVE if old or alone else Fate.KEEP
    if not old:
        return Fate.KEEP
    return Fate.REMOVE if status.over else Fate.REPORT


class IngestSweep:
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
            doomed, late = await self._fates(some, alone=alone)
            removed += await asyncio.to_thread(_remove, doomed)
            overdue += late
        self._metrics.ingest_overdue.set(overdue)
        if overdue:
            structlog.get_logger().warning(
                "uploads are still waiting for storage after the sweep's age; they are kept",
                count=overdue,
            )
        return removed

    async def _fates(self, some: list[IngestFile], *, alone: bool) -> tuple[list[IngestFile], int]:
        """Those to be removed, and how many are to be reported."""
        ids = [file.image_id for file in some]
        known, needed = await repo.statuses(self._db, ids), await repo.unsettled(self._db, ids)
        now = self._clock.now_ms()
        doomed, late = [], 0
        for file in some:
            if file.image_id in needed:
                continue  # a bucket may have to be given it again
            status = known.get(file.image_id)
            fate = fate_of(file, status, now_ms=now, ttl_ms=self._ttl_ms, alone=alone)
            match fate:
                case Fate.KEEP:
                    pass
                case Fate.REMOVE:
                    doomed.append(file)
                case Fate.REPORT:
                    late += 1
                case never:
                    assert_never(never)
        return doomed, late


def _remove(files: Iterable[IngestFile]) -> int:
    count = 0
    for file in files:
        hit("ingest.sweep")
        file.path.unlink(missing_ok=True)
        count += 1
    return count
