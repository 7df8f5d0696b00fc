"""A process that adopts a directory, and may die at it."""

from pathlib import Path

from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds, SystemClock
from safelight.infra.queue.queue import Queue
from safelight.ingest import jobs
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.nodes.adopt import Adopted, Adoption


async def adopt(url: str, source: str, into: str, node: str | None = None) -> Adopted:
    db = await Database.open(url, pool_size=2)
    directory = IngestDirectory(Path(into), RandomIds())
    assert directory.lock_shared()
    queue = Queue(
        db, Bus(db, "adopting"), SystemClock(), owner="adopting", node=directory.node,
        kinds=jobs.KINDS,
    )  # fmt: skip
    try:
        return await Adoption(queue, directory).adopt(Path(source), node)
    finally:
        directory.close()
        await db.close()
