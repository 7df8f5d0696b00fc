"""Writes to a bucket that nobody finished: tells of what the bucket holds instead."""

from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.objects import repo
from safelight.objects.repo import Ticket
from safelight.objects.store import Facts, Landed, NoSuchObject, ObjectInfo, ObjectStore, Place

_PATIENCE_MS = 60_000
_BATCH = 200


class Settle:
    def __init__(self, db: Database, store: ObjectStore, clock: Clock) -> None:
        self._db = db
        self._store = store
        self._clock = clock

    async def run(self) -> int:
        """Settles what is old enough; returns how many writes it found unfinished."""
        tickets = await repo.unsettled(self._db, self._clock.now_ms() - _PATIENCE_MS, _BATCH)
        settled = [await self._settle(ticket) for ticket in tickets]
        return sum(settled)

    async def _settle(self, ticket: Ticket) -> bool:
        async with self._db.transaction() as connection:
            await reach("objects.take_over")
            if not await repo.take_over(connection, ticket):
                return False
            await self._tell(connection, ticket.key)
            await reach("objects.settled")
            await repo.redeem(connection, ticket.id)
        return True

    async def _tell(self, connection: Connection, key: str) -> None:
        """Brings index and events of one key to what the bucket holds."""
        held, indexed = await self._held(key), await repo.find(connection, key)
        if held is None:
            if indexed:
                await reach("objects.settle_delete")
                await repo.delete(connection, key, Place.BUCKET, self._clock.now_ms())
        elif not (indexed and _same(indexed[0], held)):
            facts = Facts(held.content_type, held.metadata)
            landed = Landed(Place.BUCKET, held.etag, held.size, sha256="")
            await reach("objects.settle_put")
            await repo.put(connection, key, landed, facts, self._clock.now_ms())

    async def _held(self, key: str) -> ObjectInfo | None:
        try:
            return await self._store.head(key)
        except NoSuchObject:
            return None


def _same(indexed: ObjectInfo, held: ObjectInfo) -> bool:
    return (indexed.etag, indexed.metadata) == (held.etag, held.metadata)
