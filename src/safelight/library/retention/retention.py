"""Originals go when they are older than their organization keeps them.

Each goes as if somebody had deleted it: object, event (a `LifecycleDeletion`), delivery, tombstone,
and the bytes are given back to the quota. What was decided from a page is looked at again under the
key's lock: an upload that has come meanwhile is another object, newer than the limit, and stays. It
cannot be undone, so it goes by the steady time.

A bucket whose own notifications are the events has rules of its own for this, and no limit can be
set here. Where a bucket only holds what we write, its delete has a ticket like any other; once that
is there the object is looked at once more, so that whoever writes later sees the ticket and is
settled.
"""

from dataclasses import dataclass

from safelight.accounts.members import hold_organization
from safelight.errors import Conflict
from safelight.infra.activity import Units
from safelight.infra.base import Base
from safelight.infra.failpoints import reach
from safelight.infra.history import SYSTEM, Line
from safelight.infra.steady import SteadyTime
from safelight.library.retention import repo
from safelight.library.retention.lifecycle import Aged, in_words
from safelight.objects.jobs import DELIVER
from safelight.objects.store import Cleared, ObjectStore

DAY_MS = 86_400_000
_SECONDS = 30.0
_BATCH = 100


class RulesOfTheBucket(Conflict):
    """The bucket tells of its own changes, and its own lifecycle rules say how long originals are
    kept. Set them there."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """`telling`: the store is a bucket whose own rules hold."""

    units: Units
    telling: bool

    async def of(self, organization: str) -> int | None:
        return (await repo.days_of(self.units.db, [organization])).get(organization)

    async def change(self, organization: str, days: int | None, actor: dict[str, str]) -> None:
        if self.telling and days is not None:
            raise RulesOfTheBucket
        async with self.units.open(organization) as unit:
            await hold_organization(unit)
            await repo.put(unit, days)
            unit.tell(Line("retention", "retention_changed", {"actor": actor, "days": days}))


class Retention:
    def __init__(self, base: Base, store: ObjectStore, *, batch: int = _BATCH) -> None:
        self._units = base.units
        self._db = base.db
        self._clock = base.clock
        self._store = store
        self._batch = batch

    async def run(self) -> int:
        """A page of each organization in turn, as far as the time reaches. Returns how many
        originals went."""
        if self._store.telling:
            return 0
        until = self._clock.monotonic() + _SECONDS
        limits = await repo.limits(self._db)
        now = await SteadyTime(self._db, self._clock).now_ms()
        places, gone = dict.fromkeys(limits, (0, "")), 0
        while places and self._clock.monotonic() < until:
            for organization, after in list(places.items()):
                days = limits[organization]
                before = now - days * DAY_MS
                page = await repo.older(self._db, organization, before, after, self._batch)
                gone += sum([await self._expire(one, days, before) for one in page])
                if len(page) == self._batch:
                    places[organization] = page[-1].place
                else:
                    del places[organization]
        return gone

    async def _expire(self, one: Aged, days: int, before: int) -> bool:
        if one.etag is None:
            return False
        reason = f"Originals are kept for {in_words(days)} here: removed by retention."
        data = {"name": one.name, "reason": reason, "actor": SYSTEM}
        line = Line(f"upload:{one.name}", "upload_expired", data)

        async def still(ticket: int) -> bool:
            return await repo.is_still(self._db, one, before, ticket)

        async def write(cleared: Cleared) -> bool:
            now = self._units.clock.now_ms()
            return await repo.expire(self._db, one, before, cleared, line, now)

        await reach("library.delete_aged")
        done = await self._store.delete_if(one.key, still, write)
        if done:
            self._units.announce(one.organization, DELIVER)
        return done
