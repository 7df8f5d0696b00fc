"""Looks whether bucket, index and library agree, and puts right what does not.

Events are delivered at least once and a run ends with its job, so there should be nothing to find.
There is after a dead letter that nobody redrove, a notification that a bucket never sent, a row
that somebody removed by hand, an object that somebody else put into the bucket or took out of it.
walk.py goes through all of it by pages; a page only raises suspicion. Each suspect is then asked
about by itself: the store first, with no lock held, then index and entry under the name's lock. Our
own events are made under that lock, so one that is not delivered yet has a job that lives, and then
nothing is touched; nor is a key with an open ticket, which is settled elsewhere.

What is wrong is told again through the door of the first time (an event and its delivery), so that
order and tombstones hold; nothing is written past them. Nothing is taken for gone that the
database's own bucket has not said to be gone: an error, a bucket without its mark, a volume that is
not mounted end the walk, which goes on later where it was.

The schedule mends what follows from what Safelight knows. Where a bucket that is ours alone to
write to was changed behind our back, it only says so: somebody's mistake is not to be made
complete by us. `safelight reconcile --repair` follows the bucket there.

Gap: where the bucket tells by itself, the same bytes uploaded again under the same name look alike
in a listing, so a lost notification of that is not found; and a bucket may date an upload in parts
by its beginning, so a delete in the middle of it, heard after us, outranks it until the upload's
own notification comes.
"""

from collections.abc import AsyncIterator, Sequence
from enum import Enum, auto
from typing import Any, assert_never

import structlog
from prometheus_client import Counter

from safelight.infra import kv
from safelight.infra.activity import Unit
from safelight.infra.base import Base
from safelight.infra.db import AWAY
from safelight.infra.queue.jobs import JobKind
from safelight.library import repo as library
from safelight.library.order import Snapshot, StoreNow
from safelight.library.reconcile.compare import Sides
from safelight.library.reconcile.comparison import Comparison
from safelight.library.reconcile.mend import (
    AskPerson,
    Difference,
    FollowBucket,
    Mend,
    Name,
    RestartRun,
    SayFailed,
    TellCreated,
    TellDeleted,
    decide_follow,
    decide_mend,
)
from safelight.library.reconcile.repair import Repair
from safelight.library.reconcile.walk import Walk
from safelight.objects import repo as objects
from safelight.objects.jobs import DELIVER
from safelight.objects.store import BlobFiles, NoSuchObject, ObjectInfo, ObjectStore, Unsettled

YOUNG_MS = 5 * 60_000
_SECONDS = 5.0  # every ten minutes
_PAGE = 1000
_KEY = "library.reconcile"
_FOUND_KEY = "library.reconcile.found"
_RESUMED_MS = 86_400_000  # later than that a command begins anew


class Repairs(Enum):
    NONE = auto()
    OURS = auto()  # what follows from what Safelight knows
    ALL = auto()


class LibraryReconcile:
    def __init__(
        self,
        base: Base,
        store: ObjectStore,
        runs: JobKind[Any],
        sides: Sides,
        files: BlobFiles | None = None,
        *,
        young_ms: int = YOUNG_MS,
        page: int = _PAGE,
    ) -> None:
        self._units = base.units
        self._db = base.db
        self._clock = base.clock
        self._queue = base.queue
        self._store = store
        self._sides = sides
        self._files = files
        self._young_ms = young_ms
        self._walk = Walk(base.db, store, sides, files, page)
        self._repair = Repair(base.queue, runs)
        self._mended = Counter(
            "safelight_library_reconciled_total",
            "Entries that were not what the store holds and were put right, by what was done.",
            ("what",),
            registry=base.metrics.registry,
        )

    async def run(self) -> int:
        """The schedule's: as far as the time reaches, from where the last one was. Returns how many
        names were put right."""
        until = self._clock.monotonic() + _SECONDS
        report = await self._kept(_KEY) or Comparison()
        before, over = report.repaired, False
        while not over:
            await self._step(report, None, Repairs.OURS)
            await self._keep(_KEY, Comparison() if report.complete else report)
            over = report.complete or self._clock.monotonic() >= until
        if report.complete:
            await self._publish(report)
        return report.repaired - before

    async def compare(
        self, organization: str | None, *, repair: bool, afresh: bool = False
    ) -> AsyncIterator[Comparison]:
        """A person's: all of it. Tells after each page how far it is; one that was ended goes on
        there when the same is asked for again within a day, unless `afresh`."""
        key = f"{_KEY}:{'repair' if repair else 'look'}:{organization or ''}"
        repairs = Repairs.ALL if repair else Repairs.NONE
        report = None if afresh else await self._kept(key)
        report = report or Comparison()
        yield report
        while not report.complete:
            await self._step(report, organization, repairs)
            await self._keep_until_complete(key, report)
            yield report

    async def _step(self, report: Comparison, only: str | None, repairs: Repairs) -> None:
        page = await self._walk.next(report.position or "", only, self._young())
        await self._look_at_all(page.suspects, repairs, report)
        report.compared += page.compared
        report.under_way += page.young
        report.foreign += page.foreign
        report.position = page.position

    async def _kept(self, key: str) -> Comparison | None:
        kept = await kv.get(self._db, key, now=self._clock.now_ms())
        return None if kept is None else Comparison.of_json(kept)

    async def _keep(self, key: str, report: Comparison, ttl_ms: int | None = None) -> None:
        now = self._clock.now_ms()
        await kv.put(self._db, key, report.as_json(), now=now, ttl_ms=ttl_ms)

    async def _keep_until_complete(self, key: str, report: Comparison) -> None:
        if report.complete:
            await kv.delete(self._db, key)
        else:
            await self._keep(key, report, _RESUMED_MS)

    async def _publish(self, report: Comparison) -> None:
        """What is left after a whole round; /metrics shows it, whoever is asked."""
        await self._keep(_FOUND_KEY, report)
        if report.remaining:
            hint = "safelight reconcile shows more"
            structlog.get_logger().warning("library.differs", left=await self.left(), hint=hint)

    async def left(self) -> dict[str, int]:
        """Of each kind of difference, what was there after the schedule's last whole round."""
        report = await self._kept(_FOUND_KEY) or Comparison()
        return {str(kind): found.count - found.repaired for kind, found in report.found.items()}

    # One name

    async def _look_at_all(
        self, suspects: Sequence[Name], repairs: Repairs, report: Comparison
    ) -> None:
        if not suspects:
            return
        pairs = [(one.organization, one.name) for one in suspects]
        busy = await self._queue.living(self._db, DELIVER, "name", pairs)
        for one in suspects:
            if (one.organization, one.name) in busy:
                report.under_way += 1
            else:
                await self._try(one, repairs, report)

    async def _try(self, one: Name, repairs: Repairs, report: Comparison) -> None:
        """A name that cannot be put right keeps nobody from looking at the next."""
        try:
            await self._look_at(one, repairs, report)
        except AWAY:
            raise
        except Exception:  # noqa: BLE001 - whatever it was, it is this name's
            structlog.get_logger().exception("library.not_reconciled", upload=one.key)
            report.unsure += 1

    async def _look_at(self, one: Name, repairs: Repairs, report: Comparison) -> None:
        seen = await self._seen(one)
        held = await self._held(one.key)
        if (seen and seen.tickets) or (held and self._is_young(held)):
            report.under_way += 1
            return
        async with self._units.open(one.organization) as unit:
            if seen and not await objects.hold(unit.connection, seen):
                report.under_way += 1
                return
            found = await library.look(unit, one.name)
            info = await self._known(unit, one, seen, held)
            if await self._is_on_its_way(unit, one, info, held):
                report.under_way += 1
                return
            mend = await self._decide(unit, one, found, info, held)
            done = await self._mend(unit, one, found, mend, info, repairs)
        if mend is not None:
            self._note(one, mend, report, done)
        elif held is not None and found.row is None:
            report.foreign += 1
        elif held is not None:
            await self._look_at_file(one, repairs, report)

    async def _seen(self, one: Name) -> Unsettled | None:
        """What the index says before a bucket of ours is asked: whatever is written meanwhile has
        changed it, or has a ticket."""
        return await objects.unsettled(self._db, one.key) if self._sides is Sides.OWN else None

    async def _held(self, key: str) -> ObjectInfo | None:
        """What the store says. Raises when it cannot be asked, or is not the database's own."""
        try:
            return await self._store.head(key)
        except NoSuchObject:
            return None

    async def _known(
        self, unit: Unit, one: Name, seen: Unsettled | None, held: ObjectInfo | None
    ) -> ObjectInfo | None:
        """What the library has to agree with."""
        if self._sides is Sides.TELLING:
            return held
        if seen is not None:
            return seen.indexed
        found = await objects.find(unit.connection, one.key)
        return found[0] if found else None

    async def _is_on_its_way(
        self, unit: Unit, one: Name, info: ObjectInfo | None, held: ObjectInfo | None
    ) -> bool:
        """Its event has not been heard yet, or it was changed since it was asked for."""
        if self._sides is Sides.BUILT_IN and _now(info) != _now(held):
            return True
        pair = (one.organization, one.name)
        return bool(await self._queue.living(unit.connection, DELIVER, "name", [pair]))

    async def _decide(
        self,
        unit: Unit,
        one: Name,
        found: Snapshot,
        info: ObjectInfo | None,
        held: ObjectInfo | None,
    ) -> Mend | AskPerson | None:
        """Where index and bucket differ, the library follows when they agree."""
        if self._sides is Sides.OWN:
            if follow := decide_follow(info, held):
                return follow
            if info is None and held is not None:
                return None
        return decide_mend(found, _now(info), await self._repair.letter(unit, one, found))

    async def _mend(
        self,
        unit: Unit,
        one: Name,
        found: Snapshot,
        mend: Mend | AskPerson | None,
        info: ObjectInfo | None,
        repairs: Repairs,
    ) -> Mend | None:
        """What was done."""
        if mend is None or isinstance(mend, AskPerson):
            return None
        match mend:
            case FollowBucket():
                may = repairs is Repairs.ALL
            case TellCreated() | TellDeleted() | RestartRun() | SayFailed():
                may = repairs is not Repairs.NONE
            case never:
                assert_never(never)
        if not may:
            return None
        time = _told_time(info, seconds=self._sides is Sides.TELLING) if info else 0
        await self._repair.carry_out(unit, one, found, mend, info, time)
        return mend

    def _note(
        self, one: Name, mend: Mend | AskPerson, report: Comparison, done: Mend | None
    ) -> None:
        report.add(mend.difference, one.key, repaired=done is not None)
        if done is not None:
            self._mended.labels(done.what).inc()
            structlog.get_logger().warning("library.reconciled", upload=one.key, found=done.found)

    async def _look_at_file(self, one: Name, repairs: Repairs, report: Comparison) -> None:
        """Of the built-in store. Whoever finds it missing has it looked at as scrubbing does, which
        tells the story of every name that has it; only the same bytes, sent again, bring it
        back."""
        found = await objects.find(self._db, one.key)
        info, blob = found or (None, None)
        if self._files is None or info is None or blob is None:
            return
        if await self._files.lacking({blob: info.size}):
            report.add(Difference.NO_FILE, one.key, repaired=False)
            if repairs is not Repairs.NONE:
                await self._files.suspect(blob)

    def _young(self) -> tuple[int, int]:
        now = self._clock.now_ms()
        return now - self._young_ms, now + self._young_ms

    def _is_young(self, one: ObjectInfo) -> bool:
        begin, end = self._young()
        return begin <= one.event_time <= end


def _now(info: ObjectInfo | None) -> StoreNow | None:
    return StoreNow(info.etag, info.metadata.get("idempotencyKey")) if info else None


def _told_time(info: ObjectInfo, *, seconds: bool) -> int:
    """A bucket dates its objects in whole seconds. As in notifications that counts as the second's
    end: otherwise a delete of the same second, heard after us, would outrank the upload after it.
    Nothing newer is of that second any more, because what is young is not told of."""
    return info.event_time - info.event_time % 1000 + 999 if seconds else info.event_time
