"""Keeps the ingest directory from growing, without ever deleting the only copy of an image.

A whole file without a record goes to lost+found, not away: its row may be a dead process's last
statement and commit yet, or the record may be lost and the file the only trace. It goes back when
its record turns up. Jobs about files that are here become this node's, whoever had them before; and
images that were given up with a machine go on where their files are (nodes/revive.py).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import assert_never

import structlog

from safelight.infra.failpoints import hit
from safelight.infra.injected import Clock, ImageId
from safelight.infra.lost_found import HANDFUL, KEPT_MS
from safelight.infra.metrics import Metrics
from safelight.infra.queue.queue import Queue
from safelight.ingest import repo
from safelight.ingest.directory import IngestDirectory, IngestFile, files_in
from safelight.ingest.jobs import OFFLOAD, PUT_BACK
from safelight.ingest.lifecycle import ImageStatus
from safelight.ingest.nodes import repo as nodes
from safelight.ingest.nodes.lifecycle import NodeStanding
from safelight.ingest.nodes.revive import revive

_BATCH = 1000
_POLL_SECONDS = 0.05
# A statement of a process that was killed has committed or failed by then.
LATE_MS = 60_000
_KEPT_SECONDS = 7 * 86_400


class Fate(Enum):
    KEEP = "keep"
    REMOVE = "remove"
    SET_ASIDE = "set aside"
    REPORT = "report"


def fate_of(
    file: IngestFile, status: ImageStatus | None, *, now_ms: int, ttl_ms: int, alone: bool
) -> Fate:
    """`status` is the image's, None when there is no record. `alone`: no other process can be
    writing here, so what is hidden is a leftover of an earlier life, whatever its age."""
    age = now_ms - file.modified_ms
    old = age >= ttl_ms
    if file.partial:
        return Fate.REMOVE if old or alone else Fate.KEEP
    if status is None:
        return Fate.SET_ASIDE if old or (alone and age >= LATE_MS) else Fate.KEEP
    if not old:
        return Fate.KEEP
    return Fate.REMOVE if status.over else Fate.REPORT


@dataclass(slots=True)
class Judged:
    doomed: list[Path] = field(default_factory=list)
    strays: list[Path] = field(default_factory=list)
    here: list[ImageId] = field(default_factory=list)
    late: int = 0


class IngestSweep:
    def __init__(
        self,
        queue: Queue,
        directory: IngestDirectory,
        clock: Clock,
        metrics: Metrics,
        ttl_seconds: float,
    ) -> None:
        self._queue = queue
        self._db = queue.db
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
            while not self._directory.lock_shared():  # noqa: ASYNC110 - another process has it
                await asyncio.sleep(_POLL_SECONDS)

    async def run(self, *, alone: bool = False) -> int:
        """Returns how many files it removed or set aside."""
        if not await asyncio.to_thread(self._directory.is_there):
            structlog.get_logger().error(
                "the ingest directory is not the one it was; is its volume mounted?",
                directory=str(self._directory.path),
            )
            return 0
        await self._look_at_lost()
        judged = await self._judge(alone=alone)
        gone = await asyncio.to_thread(_remove, judged.doomed)
        gone += await self._set_aside(judged.strays)
        self._tell_late(judged.late)
        await self._adopt(judged.here)
        await self._forget_gone()
        return gone

    async def _judge(self, *, alone: bool) -> Judged:
        judged = Judged()
        everything = await asyncio.to_thread(lambda: list(self._directory.files()))
        for start in range(0, len(everything), _BATCH):
            some = everything[start : start + _BATCH]
            ids = [file.image_id for file in some]
            await revive(self._queue.units, ids, self._directory.node)
            known, needed = await repo.statuses(self._db, ids), await repo.unsettled(self._db, ids)
            judged.here += [file.image_id for file in some if file.image_id in known]
            for file in some:
                if file.image_id not in needed:  # a bucket may have to be given it again
                    self._judge_one(judged, file, known.get(file.image_id), alone=alone)
        return judged

    def _judge_one(
        self, judged: Judged, file: IngestFile, status: ImageStatus | None, *, alone: bool
    ) -> None:
        now = self._clock.now_ms()
        fate = fate_of(file, status, now_ms=now, ttl_ms=self._ttl_ms, alone=alone)
        match fate:
            case Fate.KEEP:
                pass
            case Fate.REMOVE:
                judged.doomed.append(file.path)
            case Fate.SET_ASIDE:
                judged.strays.append(file.path)
            case Fate.REPORT:
                judged.late += 1
            case never:
                assert_never(never)

    async def _set_aside(self, strays: list[Path]) -> int:
        self._metrics.strays.labels("ingest").set(len(strays))
        if len(strays) > HANDFUL:
            structlog.get_logger().error(
                "many files in the ingest directory have no record; none is moved. Is this the "
                "right database? If it is, move them to lost+found by hand",
                count=len(strays),
                directory=str(self._directory.path),
            )
            return 0
        if not strays:
            return 0
        moved = await asyncio.to_thread(self._directory.lost.take, strays)
        structlog.get_logger().warning(
            "uploads without a record were moved", count=moved, to=str(self._directory.lost.path)
        )
        return moved

    async def _look_at_lost(self) -> None:
        """What is known by now goes back; what nobody asked for in weeks goes."""
        lost = self._directory.lost
        if not lost.path.is_dir():
            return
        there = await asyncio.to_thread(lambda: list(files_in(lost.path)))
        known = await repo.statuses(self._db, [file.image_id for file in there])
        for file in there:
            status = known.get(file.image_id)
            if not file.partial and status is not None and not status.over:
                self._directory.put_back(file.path.name)
        await asyncio.to_thread(lost.forget, self._clock.now_ms() - KEPT_MS)

    def _tell_late(self, late: int) -> None:
        self._metrics.ingest_overdue.set(late)
        if late:
            structlog.get_logger().warning(
                "uploads are still waiting for storage after the sweep's age; they are kept",
                count=late,
            )

    async def _adopt(self, here: list[ImageId]) -> None:
        """The directory may have had another id, or be a copy; the bytes are checked on the way."""
        if adopted := sum([await self._queue.adopt(kind, here) for kind in (OFFLOAD, PUT_BACK)]):
            structlog.get_logger().warning(
                "took over the jobs of uploads that wait in this directory", count=adopted
            )

    async def _forget_gone(self) -> None:
        """Nodes that have told nothing for a week, and that nobody misses."""
        for node in await nodes.nodes(self._db):
            if node.standing is NodeStanding.GONE and (node.silent or 0) > _KEPT_SECONDS:
                await nodes.forget(self._db, node.id)


def _remove(paths: Iterable[Path]) -> int:
    count = 0
    for path in paths:
        hit("ingest.sweep")
        path.unlink(missing_ok=True)
        count += 1
    return count
