"""From rows to the operations page."""

import asyncio
import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from safelight.infra.injected import Clock
from safelight.infra.queue import watched
from safelight.infra.queue.queue import Queue
from safelight.ingest.nodes.lifecycle import Node
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.recover import StuckSubmission, stuck
from safelight.web.operations.shown import (
    Disk,
    KindRow,
    ScheduleRow,
    StuckRow,
    WorkerShown,
    kind_rows,
    schedule_rows,
)
from safelight.web.pictures import Thing, with_pictures
from safelight.web.sentences import address_of


@dataclass(frozen=True, slots=True)
class Operations:
    """`visible` are the organizations whose pictures the visitor may see."""

    queue: Queue
    clock: Clock
    tempo: Tempo
    nodes: dict[str, Node]
    visible: Collection[str]

    async def kinds(self) -> list[KindRow]:
        return kind_rows(await self.queue.status(), await watched.waits_for(self.queue.db))

    async def stuck(self) -> list[StuckRow]:
        found = await stuck(self.queue.db, self.clock.now_ms(), self.tempo)
        things = await with_pictures(self.queue.db, [_thing(one) for one in found], self.visible)
        return [StuckRow(one, thing) for one, thing in zip(found, things, strict=True)]

    async def workers(self) -> list[WorkerShown]:
        """One that is gone and holds nothing is of no interest."""
        rows = await watched.workers(self.queue.db)
        now = self.clock.now_ms()
        return [
            WorkerShown(row, self.nodes.get(row.node), now)
            for row in rows
            if row.present or row.runs
        ]

    async def schedules(self) -> list[ScheduleRow]:
        found = await watched.schedules_in_trouble(self.queue.db, sorted(self.queue.kinds))
        return schedule_rows(found, self.nodes, self.clock.now_ms())


def _thing(one: StuckSubmission) -> Thing:
    made = one.submission
    upload = made.source_id if made.source_kind == "upload" else None
    title = made.title or upload or "A submission"
    return replace(
        Thing(made.organization, title, upload),
        address=address_of(made.subject, made.organization),
    )


async def disk(path: Path) -> Disk | None:
    """Of the directory where uploads arrive; None: the system does not say."""
    try:
        usage = await asyncio.to_thread(shutil.disk_usage, path)
    except OSError:
        return None
    return Disk(usage.free, usage.total)
