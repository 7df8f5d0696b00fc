"""What time removes: state in flight of generations long over, and objects no artifact has.

An artifact without its row comes only of a crash between a bucket and the database, or of a result
that arrived when nobody wanted it any more. An object is judged once it is a day old, longer than
anything can still be under way, and again, row by row, right before it goes.
"""

import structlog

from safelight.generations import repo
from safelight.generations.lifecycle import key_of
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.infra.queue.jobs import DAY
from safelight.objects.store import ObjectStore

ORPHAN_MS = DAY * 1000
_PREFIX = key_of("")
_BATCH = 500


class GenerationSweep:
    def __init__(
        self,
        db: Database,
        store: ObjectStore,
        clock: Clock,
        *,
        keep_days: float,
        orphan_ms: int = ORPHAN_MS,
    ) -> None:
        self._db = db
        self._store = store
        self._clock = clock
        self._keep_ms = int(keep_days * DAY * 1000)
        self._orphan_ms = orphan_ms

    async def purge(self) -> int:
        """How many generations' state in flight was dropped."""
        before, total, purged = self._clock.now_ms() - self._keep_ms, 0, _BATCH
        while purged == _BATCH:
            purged = await repo.purge(self._db, before, _BATCH)
            total += purged
        return total

    async def orphans(self) -> int:
        """How many objects without an artifact were removed."""
        before, after, removed = self._clock.now_ms() - self._orphan_ms, "", 0
        while listed := await self._store.list(_PREFIX, after, _BATCH):
            after = listed[-1].key
            old = [one.key for one in listed if one.event_time < before]
            removed += await self._remove(old)
        if removed:
            structlog.get_logger().info("removed objects no artifact has", count=removed)
        return removed

    async def _remove(self, keys: list[str]) -> int:
        wanted = await repo.wanted(self._db, [_id_of(key) for key in keys])
        orphans = [key for key in keys if _id_of(key) not in wanted]
        removed = 0
        for key in orphans:
            if not await repo.wanted(self._db, [_id_of(key)]):
                await reach("generations.remove_orphan")
                await self._store.delete(key)
                removed += 1
        return removed


def _id_of(key: str) -> str:
    return key.removeprefix(_PREFIX)
