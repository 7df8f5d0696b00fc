"""Reads every blob now and then and compares it with its name. Reports; never deletes.

A damaged blob heals when the same bytes are put again. A run stops after its time, the next goes on
where it stopped, and a new round begins no more often than once a week.
"""

import asyncio
from itertools import groupby

import structlog
from prometheus_client import Gauge

from safelight.infra import activity
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.objects import repo
from safelight.objects.blobs import Blobs
from safelight.objects.repo import Blob
from safelight.objects.store import DamagedObject

ROUND_MS = 7 * 86_400_000
_BATCH = 10
_WALK = "scrub"


class Scrub:
    def __init__(
        self, db: Database, blobs: Blobs, clock: Clock, metrics: Metrics, *, seconds: float = 30
    ) -> None:
        self._db = db
        self._blobs = blobs
        self._clock = clock
        self._seconds = seconds
        self._gauge = Gauge(
            "safelight_blobs_damaged",
            "Blobs whose file is missing or differs from its name.",
            registry=metrics.registry,
        )

    async def run(self) -> int:
        """Returns how many blobs it read."""
        now = self._clock.now_ms()
        position, begun = await repo.walk(self._db, _WALK) or ("", 0)
        if not position:
            if now - begun < ROUND_MS:
                return 0
            begun = now
        until = self._clock.monotonic() + self._seconds
        count = 0
        over = False
        while not over:
            batch = await repo.blobs_after(self._db, position, _BATCH)
            for blob in batch:
                await self._look_at(blob)
            count += len(batch)
            position = batch[-1].sha256 if len(batch) == _BATCH else ""
            await reach("objects.walk_scrub")
            await repo.set_walk(self._db, _WALK, position, begun)
            over = not position or self._clock.monotonic() >= until
        self._gauge.set(await repo.damaged(self._db))
        return count

    async def _look_at(self, blob: Blob) -> None:
        whole = await asyncio.to_thread(self._blobs.is_whole, blob.sha256)
        if whole != (blob.state == "live"):
            await self._judge(blob.sha256)

    async def _judge(self, sha256: str) -> None:
        """Looks once more with the row locked: it may just have been put, or been removed."""
        async with self._db.transaction() as connection:
            blob = await repo.lock_blob(connection, sha256)
            whole = await asyncio.to_thread(self._blobs.is_whole, sha256)
            if blob is None or whole == (blob.state == "live"):
                return
            await reach("objects.mark")
            await repo.mark(connection, sha256, "live" if whole else "damaged")
            await self._report(connection, sha256, whole=whole)

    async def _report(self, connection: Connection, sha256: str, *, whole: bool) -> None:
        """In the story of every upload whose bytes these are."""
        structlog.get_logger().error("blob.healed" if whole else "blob.damaged", sha256=sha256)
        names = await repo.names_of(connection, sha256)
        for organization, group in groupby(names, key=lambda pair: pair[0]):
            entries = [_entry(name, whole=whole) for _, name in group]
            await activity.append(connection, organization, self._clock.now_ms(), *entries)


def _entry(name: str, *, whole: bool) -> Line:
    if whole:
        return Line(f"upload:{name}", "original_healed")
    error = {"code": DamagedObject.code, "message": DamagedObject.default_message()}
    return Line(f"upload:{name}", "original_damaged", {"error": error})
