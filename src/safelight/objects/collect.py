"""Removes blobs that nothing has referred to for the grace period, and files without a row.

Condemn (committed), then under the shard's exclusive lock: raise its epoch (committed), unlink,
delete the rows. Killed anywhere, the next run goes on; a put brings a condemned blob back to life.
blobs.py says why the two cannot meet.
"""

import asyncio

import structlog

from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.objects import repo
from safelight.objects.blobs import Blobs, Found

GRACE_MS = 86_400_000
STRAY_MS = 86_400_000
_BATCH = 1000
_SHARDS = [f"{n:02x}" for n in range(256)]
_SHARDS_A_RUN = 32


class Collect:
    def __init__(
        self, db: Database, blobs: Blobs, clock: Clock, *, grace_ms: int = GRACE_MS
    ) -> None:
        self._db = db
        self._blobs = blobs
        self._clock = clock
        self._grace_ms = grace_ms

    async def run(self) -> int:
        """Returns how many blobs it removed."""
        await self._condemn()
        await self._condemn_strays()
        removed = sum([await self._remove(s) for s in await repo.condemned_shards(self._db)])
        if removed:
            structlog.get_logger().info("removed blobs nothing refers to", count=removed)
        return removed

    async def _condemn(self) -> None:
        before = self._clock.now_ms() - self._grace_ms
        condemned = _BATCH
        while condemned == _BATCH:
            await reach("objects.condemn")
            condemned = await repo.condemn(self._db, before, _BATCH)

    async def _remove(self, shard: str) -> int:
        """Nothing, this time, if somebody is putting into the shard."""
        hold = await asyncio.to_thread(self._blobs.alone, shard)
        if hold is None:
            return 0
        try:
            await reach("objects.next_epoch")
            await repo.next_epoch(self._db, shard)
            async with self._db.transaction() as connection:
                names = await repo.lock_condemned(connection, shard)
                await asyncio.to_thread(self._blobs.remove, names)
                await reach("objects.forget")
                await repo.forget(connection, names)
            return len(names)
        finally:
            hold.release()

    async def _condemn_strays(self) -> None:
        """Looks through a part of the directory each time."""
        position, _ = await repo.walk(self._db, "strays") or ("", 0)
        shards = [shard for shard in _SHARDS if shard > position][:_SHARDS_A_RUN]
        for shard in shards:
            found = await asyncio.to_thread(self._blobs.files, shard)
            strays = await self._strays(found)
            if strays:
                await reach("objects.condemn_strays")
                await repo.condemn_strays(self._db, strays)
        at_end = not shards or shards[-1] == _SHARDS[-1]
        await reach("objects.walk_strays")
        await repo.set_walk(self._db, "strays", "" if at_end else shards[-1], 0)

    async def _strays(self, found: list[Found]) -> list[tuple[str, int]]:
        """Old enough not to belong to a put that is still under way."""
        before = self._clock.now_ms() - STRAY_MS
        old = [file for file in found if file.changed_ms < before]
        known = await repo.known(self._db, [file.sha256 for file in old])
        return [(file.sha256, file.size) for file in old if file.sha256 not in known]
