"""What the built-in store needs now and then: collecting blobs, scrubbing them, and purging.

Collecting removes blobs that nothing has referred to for the grace period, and moves files without
a row to lost+found. Condemn (committed), then under the shard's exclusive lock: raise its epoch
(committed), unlink, delete the rows. Killed anywhere, the next run goes on; a put brings a
condemned blob back to life. local.py says why the two cannot meet.

Scrubbing reads every blob now and then and compares it with its name. It reports and never deletes:
a damaged blob heals when the same bytes are put again.

Purging forgets drafts of puts that died, and, for every store, old tombstones and told events.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from prometheus_client import Gauge

from safelight.infra.activity import Units
from safelight.infra.failpoints import hit
from safelight.infra.history import Line
from safelight.infra.lost_found import HANDFUL, KEPT_MS
from safelight.infra.metrics import Metrics
from safelight.infra.steady import SteadyTime
from safelight.infra.stretches import Stretched
from safelight.objects import repo
from safelight.objects.blobs import Blobs
from safelight.objects.shelves import SHARDS
from safelight.objects.store import Blob, DamagedObject

DAY_MS = 86_400_000
GRACE_MS = DAY_MS
STRAY_MS = DAY_MS
SCRUB_ROUND_MS = 7 * DAY_MS
_CONDEMNED_AT_A_TIME = 1000
_REMOVED_AT_A_TIME = 1000
_SHARDS_A_RUN = 32
_STRAYS = "strays"  # the names of the walks
_SCRUB = "scrub"
_SCRUBBED_AT_A_TIME = 10
_DRAFT_MS = DAY_MS
_REMEMBERED_MS = 30 * DAY_MS  # longer than any event is on its way
EVENTS = Stretched("object_events", "object_events_id_seq", "delivered_at IS NULL")


class Collect:
    def __init__(
        self, units: Units, blobs: Blobs, metrics: Metrics, *, grace_ms: int = GRACE_MS
    ) -> None:
        self._metrics = metrics
        self._db = units.db
        self._clock = units.clock
        self._blobs = blobs
        self._grace_ms = grace_ms

    async def run(self) -> int:
        """Returns how many blobs it removed."""
        await asyncio.to_thread(self._blobs.ensure_there)
        await self._condemn()
        await self._look_at_lost()
        await self._look_for_strays()
        removed = sum([await self._remove(s) for s in await repo.condemned_shards(self._db)])
        if removed:
            structlog.get_logger().info("removed blobs nothing refers to", count=removed)
        return removed

    async def _condemn(self) -> None:
        before = self._clock.now_ms() - self._grace_ms
        condemned = _CONDEMNED_AT_A_TIME
        while condemned == _CONDEMNED_AT_A_TIME:
            condemned = await repo.condemn(self._db, before, _CONDEMNED_AT_A_TIME)

    async def _remove(self, shard: str) -> int:
        """Nothing, this time, if somebody is putting into the shard. No transaction is open while
        files go: whoever could bring a condemned blob back needs the lock, or an epoch that is."""
        hold = await asyncio.to_thread(self._blobs.alone, shard)
        if hold is None:
            return 0
        try:
            await repo.next_epoch(self._db, shard)
            names = await repo.condemned_in(self._db, shard, _REMOVED_AT_A_TIME)
            await asyncio.to_thread(self._blobs.remove, names)
            await repo.delete_blobs(self._db, names)
            return len(names)
        finally:
            hold.release()

    async def _look_for_strays(self) -> None:
        """Looks through a part of the directory each time."""
        position, _ = await repo.walk_of(self._db, _STRAYS) or ("", 0)
        shards = [shard for shard in SHARDS if shard > position][:_SHARDS_A_RUN]
        strays = await self._strays_of(shards)
        if strays:  # a few here may be part of many
            await self._set_aside(strays, await self._strays_of(SHARDS))
        at_end = not shards or shards[-1] == SHARDS[-1]
        await repo.set_walk(self._db, _STRAYS, "" if at_end else shards[-1], 0)

    async def _strays_of(self, shards: Sequence[str]) -> dict[str, list[str]]:
        """Old enough not to belong to a put that is still under way. Stops after a handful."""
        before = self._clock.now_ms() - STRAY_MS
        strays: dict[str, list[str]] = {}
        for shard in shards:
            found = await asyncio.to_thread(self._blobs.files, shard)
            old = [file.sha256 for file in found if file.changed_ms < before]
            known = await repo.known(self._db, old)
            if names := [sha256 for sha256 in old if sha256 not in known]:
                strays[shard] = names
            if _count(strays) > HANDFUL:
                break
        return strays

    async def _set_aside(
        self, strays: Mapping[str, Sequence[str]], everywhere: Mapping[str, Sequence[str]]
    ) -> None:
        self._metrics.strays.labels("blobs").set(_count(everywhere))
        if _count(everywhere) > HANDFUL:
            structlog.get_logger().error(
                "many files in the blob directory have no row; none is moved. Is this the right "
                "database? If it is, move them to lost+found by hand",
                directory=str(self._blobs.root),
            )
            return
        moved = sum([await self._take(shard, names) for shard, names in strays.items()])
        if moved:
            structlog.get_logger().warning(
                "blobs without a row were moved", count=moved, to=str(self._blobs.lost.path)
            )

    async def _take(self, shard: str, names: Sequence[str]) -> int:
        """As a removal: with the lock, and an epoch that no dead put's last words have."""
        hold = await asyncio.to_thread(self._blobs.alone, shard)
        if hold is None:
            return 0
        try:
            await repo.next_epoch(self._db, shard)
            known = await repo.known(self._db, names)
            paths = [self._blobs.path(name) for name in names if name not in known]
            return await asyncio.to_thread(self._blobs.lost.take, paths)
        finally:
            hold.release()

    async def _look_at_lost(self) -> None:
        """What the database knows by now goes back, as after a restored backup; what nobody asked
        for in weeks goes."""
        lost = self._blobs.lost
        names = await asyncio.to_thread(lambda: [file.path.name for file in lost.files()])
        for sha256 in await repo.known(self._db, names):
            path = self._blobs.path(sha256)
            if not path.exists():
                await asyncio.to_thread(lost.give_back, sha256, path)
        await asyncio.to_thread(lost.forget, self._clock.now_ms() - KEPT_MS)


def _count(strays: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, strays.values()))


class Scrub:
    """A run stops after its time, the next goes on where it stopped, and a new round begins no more
    often than once a week."""

    def __init__(
        self, units: Units, blobs: Blobs, metrics: Metrics, *, seconds: float = 30
    ) -> None:
        self._units = units
        self._db = units.db
        self._clock = units.clock
        self._blobs = blobs
        self._seconds = seconds
        self._gauge = Gauge(
            "safelight_blobs_damaged",
            "Blobs whose file is missing or differs from its name.",
            registry=metrics.registry,
        )

    async def run(self) -> int:
        """Returns how many blobs it read."""
        now = self._clock.now_ms()
        position, begun = await repo.walk_of(self._db, _SCRUB) or ("", 0)
        if not position:
            if now - begun < SCRUB_ROUND_MS:
                return 0
            begun = now
        until = self._clock.monotonic() + self._seconds
        count = 0
        over = False
        while not over:
            batch = await repo.blobs_after(self._db, position, _SCRUBBED_AT_A_TIME)
            for blob in batch:
                await self._look_at(blob)
            count += len(batch)
            position = batch[-1].sha256 if len(batch) == _SCRUBBED_AT_A_TIME else ""
            await repo.set_walk(self._db, _SCRUB, position, begun)
            over = not position or self._clock.monotonic() >= until
        self._gauge.set(await repo.count_damaged(self._db))
        return count

    async def _look_at(self, blob: Blob) -> None:
        whole = await asyncio.to_thread(self._blobs.is_whole, blob.sha256)
        if whole != (blob.state == "live"):
            await self.recheck(blob.sha256)

    async def recheck(self, sha256: str) -> None:
        """Looks once more at the row as it is now, and believes that only if nobody has touched the
        row meanwhile: it may just have been put, or been removed. The end is in the story of every
        upload whose bytes these are."""
        version = await repo.blob_version(self._db, sha256)
        whole = await asyncio.to_thread(self._blobs.is_whole, sha256)
        async with self._units.open("") as unit:
            blob = await repo.lock_blob(unit.connection, sha256, version)
            if blob is None or whole == (blob.state == "live"):
                return
            await repo.set_blob_state(unit.connection, sha256, "live" if whole else "damaged")
            structlog.get_logger().error("blob.healed" if whole else "blob.damaged", sha256=sha256)
            for organization, name in await repo.names_of(unit.connection, sha256):
                unit.tell_others(organization, _line(name, whole=whole))


def _line(name: str, *, whole: bool) -> Line:
    if whole:
        return Line(f"upload:{name}", "original_healed")
    error = {"code": DamagedObject.code, "message": DamagedObject.default_message()}
    return Line(f"upload:{name}", "original_damaged", {"error": error})


class PurgeObjects:
    def __init__(self, units: Units, drafts: Path) -> None:
        self._units = units
        self._drafts = drafts

    async def run(self) -> None:
        now = self._units.clock.now_ms()
        await asyncio.to_thread(_discard, self._drafts, now - _DRAFT_MS)
        steady = await SteadyTime(self._units.db, self._units.clock).now_ms()
        await repo.purge_deleted(self._units.db, steady - _REMEMBERED_MS)
        await EVENTS.tend(self._units.db, steady)


def _discard(drafts: Path, before_ms: int) -> None:
    for path in drafts.iterdir():
        try:
            old = path.lstat().st_ctime_ns // 1_000_000 < before_ms
        except FileNotFoundError:
            continue  # its put has just ended
        if old:
            hit("objects.discard_old_draft")
            path.unlink(missing_ok=True)
