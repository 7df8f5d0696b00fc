"""Writes to a bucket that nobody finished: tells of what the bucket holds instead."""

from safelight.infra.activity import Unit, Units
from safelight.objects import repo
from safelight.objects.store import (
    Facts,
    Landed,
    NoSuchObject,
    ObjectInfo,
    ObjectStore,
    Place,
    Ticket,
)

_PATIENCE_MS = 60_000
_BATCH = 200


class Reconcile:
    def __init__(self, units: Units, store: ObjectStore) -> None:
        self._units = units
        self._store = store

    async def run(self) -> int:
        """Of what is old enough; returns how many writes it found unfinished."""
        before = self._units.clock.now_ms() - _PATIENCE_MS
        tickets = await repo.open_tickets(self._units.db, before, _BATCH)
        return sum([await self._finish(ticket) for ticket in tickets])

    async def _finish(self, ticket: Ticket) -> bool:
        async with self._units.open("") as unit:
            if not await repo.take_over(unit.connection, ticket):
                return False
            await self._match_bucket(unit, ticket.key)
            await repo.redeem(unit.connection, ticket.id)
        return True

    async def _match_bucket(self, unit: Unit, key: str) -> None:
        """Brings index and events of one key to what the bucket holds."""
        held, indexed = await self._held(key), await repo.find(unit.connection, key)
        if held is None:
            if indexed:
                await repo.delete(unit.connection, key, Place.BUCKET, unit.now)
        elif not (indexed and _same(indexed[0], held)):
            facts = Facts(held.content_type, held.metadata)
            landed = Landed(Place.BUCKET, held.etag, held.size, sha256="")
            await repo.put(unit.connection, key, landed, facts, unit.now)

    async def _held(self, key: str) -> ObjectInfo | None:
        try:
            return await self._store.head(key)
        except NoSuchObject:
            return None


def _same(indexed: ObjectInfo, held: ObjectInfo) -> bool:
    return (indexed.etag, indexed.metadata) == (held.etag, held.metadata)
