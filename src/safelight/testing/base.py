"""What a feature stands on, so that one can be opened alone.

async with open_base(settings, database_url, KINDS, clock=Watch()) as base:
    feature = open_approvals(base)
    hands = Hands(base.queue, feature.handlers)
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids, RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import JobKind
from safelight.infra.queue.queue import Queue
from safelight.objects.blobs import Blobs
from safelight.objects.local import LocalStore
from safelight.settings import Settings


@asynccontextmanager
async def open_base(
    settings: Settings,
    database_url: str,
    kinds: Iterable[JobKind[Any]] = (),
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    node: str = "here",
    listening: bool = False,
) -> AsyncIterator[Base]:
    """On a database that is migrated. `listening`: hears other processes too."""
    clock, ids = clock or SystemClock(), ids or RandomIds()
    db = await Database.open(database_url, pool_size=settings.database_pool_size)
    owner = ids.short("test")
    bus = Bus(db, owner)
    if listening:
        await bus.start()
    queue = Queue(db, bus, clock, owner=owner, node=node, kinds=kinds)
    try:
        yield Base(settings, clock, ids, Metrics(), db, bus, queue, queue.units)
    finally:
        await bus.stop()
        db.terminate()


def local_store(base: Base, directory: Path) -> LocalStore:
    """The built-in object store, its files in a directory of the test's."""
    return LocalStore(base.db, Blobs(directory, base.ids), base.clock, base.ids)
