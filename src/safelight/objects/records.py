"""The transactions of a put and a delete that are nothing but that."""

from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.objects import repo
from safelight.objects.store import Facts, Landed, Place, Written


class PlainPut:
    def __init__(self, key: str, facts: Facts, clock: Clock) -> None:
        self._key = key
        self._facts = facts
        self._clock = clock

    async def beaten(self, connection: Connection) -> None:
        """Never: whoever puts last, wins."""

    async def write(self, connection: Connection, landed: Landed) -> Written:
        await reach("objects.put")
        return await repo.put(connection, self._key, landed, self._facts, self._clock.now_ms())


class PlainDelete:
    def __init__(self, key: str, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    async def write(self, connection: Connection, place: Place) -> Written:
        await reach("objects.delete")
        return await repo.delete(connection, self._key, place, self._clock.now_ms())
