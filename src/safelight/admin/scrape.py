"""What /metrics says beyond this process's own counts: the queues, and where bucket, index and
library differ; read from the database when somebody asks, and not again for a few seconds, since
reading takes as long as the backlog is."""

import asyncio

from safelight.infra.db import AWAY
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import KindStatus
from safelight.infra.queue.queue import Queue
from safelight.library.reconcile.reconcile import LibraryReconcile

_FRESH_SECONDS = 5.0


class Scrape:
    def __init__(
        self, queue: Queue, reconcile: LibraryReconcile, metrics: Metrics, clock: Clock
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._metrics = metrics
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._read_at: float | None = None

    async def text(self) -> bytes:
        """A database that is away is one of the things to be told, not a reason to tell nothing."""
        async with self._one_at_a_time:
            now = self._clock.monotonic()
            if self._read_at is None or now - self._read_at >= _FRESH_SECONDS:
                await self._read()
                self._read_at = now
        return self._metrics.render()

    async def _read(self) -> None:
        try:
            queues, left = await self._queue.status(), await self._reconcile.left()
        except AWAY:
            self._metrics.database_up.set(0)
            self._show([])
            return
        self._metrics.database_up.set(1)
        self._show(queues)
        for kind, count in left.items():
            self._metrics.differences.labels(kind).set(count)

    def _show(self, queues: list[KindStatus]) -> None:
        metrics = self._metrics
        for gauge in (
            metrics.jobs, metrics.jobs_oldest, metrics.dead_letters, metrics.differences,
        ):  # fmt: skip
            gauge.clear()
        for row in queues:
            for state in ("queued", "running", "delayed"):
                metrics.jobs.labels(row.name, state).set(getattr(row, state))
            metrics.jobs_oldest.labels(row.name).set(row.oldest_seconds or 0)
            metrics.dead_letters.labels(row.name).set(row.dead_letters)
