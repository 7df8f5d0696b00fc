"""What the instance does for itself, and whether it can."""

from dataclasses import dataclass

from safelight.admin.jobs import UPKEEP
from safelight.admin.scrape import Scrape
from safelight.infra import feed, kv
from safelight.infra.base import Base, Feature
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.infra.queue.handlers import upkeep
from safelight.infra.queue.worker import Worker
from safelight.infra.steady import SteadyTime
from safelight.ingest.nodes.give_up import Nodes
from safelight.library import repo as library
from safelight.library.reconcile.reconcile import LibraryReconcile
from safelight.sandbox.sandbox import Sandbox

_DAY_MS = 86_400_000
FEED_DAYS = 30
TOMBSTONE_DAYS = 30  # longer than any sender's queue keeps an event


@dataclass(frozen=True, slots=True)
class Engine:
    """Whether this process can run jobs, for /readyz; and which protections the children that open
    untrusted bytes have to do without."""

    worker: Worker | None  # none in a process that only answers HTTP
    sandbox: Sandbox

    @property
    def healthy(self) -> bool:
        return self.worker is None or self.worker.healthy

    @property
    def unprotected(self) -> list[str]:
        return self.sandbox.protections.missing


class Upkeep:
    """What has had its time: values past their end, the old end of the feed, tombstones nothing can
    be late for any more, stories of what is not there. None of it comes back, so it goes by the
    steady time."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._steady = SteadyTime(db, clock)

    async def run(self) -> None:
        now = await self._steady.now_ms()
        while await kv.sweep(self._db, now=now):
            pass
        await feed.cut(self._db, now - FEED_DAYS * _DAY_MS)
        await library.purge_tombstones(self._db, now - TOMBSTONE_DAYS * _DAY_MS)
        await feed.HISTORY.tend(self._db, now)


def open_admin(base: Base, reconcile: LibraryReconcile) -> Feature:
    scrape = Scrape(base.queue, Nodes(base.units), reconcile, base.metrics, base.clock)
    return Feature(
        services=(scrape,),
        handlers=(upkeep(UPKEEP, Upkeep(base.db, base.clock).run),),
    )
