"""What /metrics says beyond this process's own counts: queues, nodes, and where bucket, index and
library differ; read from the database when somebody asks, and not again for a few seconds, since
reading takes as long as the backlog is."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from safelight.infra.db import AWAY
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import KindStatus
from safelight.infra.queue.queue import Queue
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.nodes.lifecycle import Node, NodeStanding

_FRESH_SECONDS = 5.0


class Differences(Protocol):
    """What the comparison of bucket, index and library has left over."""

    async def left(self) -> Mapping[str, int]:
        """How many, by kind."""


class Scrape:
    def __init__(
        self,
        queue: Queue,
        nodes: Nodes,
        differences: Differences,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._nodes = nodes
        self._differences = differences
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
            queues, nodes = await self._queue.status(), await self._nodes.all()
            left = await self._differences.left()
        except AWAY:
            self._metrics.database_up.set(0)
            self._show([])
            return
        self._metrics.database_up.set(1)
        self._show(queues)
        self._show_nodes(nodes)
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

    def _show_nodes(self, nodes: list[Node]) -> None:
        """What was known of them stays while the database is away."""
        missing = [node for node in nodes if node.standing is NodeStanding.MISSING]
        self._metrics.nodes_missing.set(len(missing))
        self._metrics.uploads_stranded.set(sum(node.uploads for node in missing))
        self._metrics.jobs_stranded.set(sum(node.uploads + node.others for node in missing))
