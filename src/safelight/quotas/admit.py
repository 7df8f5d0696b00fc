"""Whether an organization may have one more of something.

A limit is kept where the thing is recorded, in the same transaction: exactly, however many come at
once. Looking beforehand spares an upload its bytes, and is done only where there was a no before:
an organization within its limits never pays a statement for it. What was read and then refused,
for its own faults or since there is too little room, has cost as much as any upload, and is charged
as one of its minute.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from safelight.errors import SafelightError
from safelight.infra.activity import Unit
from safelight.infra.db import AWAY, Connection, Database
from safelight.infra.injected import Clock
from safelight.quotas import repo
from safelight.quotas.lifecycle import Meter, QuotaExceeded, QuotaUsedUp, refusal


async def order(unit: Unit, meter: Meter, amount: int = 1) -> None:
    """The unit's last statement, as others of the organization wait for its end."""
    await repo.charge(unit.connection, unit.organization, meter, amount, unit.now)


async def look(db: Connection | Database, organization: str, now: int, *meters: Meter) -> None:
    """Raises when nothing is left of one of them."""
    for quota in await repo.quotas(db, organization, now):
        if quota.meter in meters and quota.most is not None and quota.used_up:
            left = None if quota.resets_at is None else quota.resets_at - now
            raise refusal(quota.meter, quota.most, left and -(-left // 1000))


class UploadQuotas:
    """Per process."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._refused: set[str] = set()

    @asynccontextmanager
    async def upload(self, organization: str) -> AsyncIterator[None]:
        """Around an upload, from before its bytes are read until it is recorded."""
        if organization in self._refused:
            now = self._clock.now_ms()
            await look(self._db, organization, now, Meter.STORED_BYTES, Meter.UPLOADS)
            self._refused.discard(organization)
        try:
            yield
        except QuotaUsedUp:
            self._refused.add(organization)
            raise
        except QuotaExceeded:
            self._refused.add(organization)
            await self._charge(organization)  # what its record had charged was undone with it
            raise
        except SafelightError as error:
            if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                await self._charge(organization)
            raise

    async def _charge(self, organization: str) -> None:
        """Whatever comes of it: what was wrong with the upload matters more to its sender."""
        try:
            with suppress(*AWAY):
                async with self._db.connection() as connection:
                    now = self._clock.now_ms()
                    await repo.charge(connection, organization, Meter.UPLOADS, 1, now)
        except QuotaUsedUp:
            self._refused.add(organization)  # so that the next one is not read
