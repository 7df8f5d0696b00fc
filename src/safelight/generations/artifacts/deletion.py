"""Deleting an artifact for good: bytes, row and tags in one transaction. That it once was stays
known, so that deleting it again is no error."""

from collections.abc import Awaitable, Callable, Mapping

from safelight.generations.artifacts import repo
from safelight.generations.artifacts.repo import Artifact
from safelight.generations.keep import key_of
from safelight.generations.stories import deleted
from safelight.infra import activity
from safelight.infra.bus import Bus
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.objects import repo as objects
from safelight.objects.store import ObjectStore, Place

# Called in the transaction with the organization and the artifact's id.
WhenDeleted = Callable[[Connection, str, str], Awaitable[None]]


class Deletion:
    def __init__(
        self, store: ObjectStore, clock: Clock, bus: Bus, when_deleted: WhenDeleted | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._bus = bus
        self._when_deleted = when_deleted

    async def delete(self, artifact: Artifact, actor: Mapping[str, str]) -> None:
        async def write(connection: Connection, place: Place) -> bool:
            """False: somebody else has just deleted it."""
            now = self._clock.now_ms()
            async with connection.transaction():
                await objects.delete(connection, key_of(artifact.id), place, now)
                await reach("generations.remove_artifact")
                if not await repo.remove(connection, artifact.id, now):
                    return False
                if self._when_deleted:
                    await self._when_deleted(connection, artifact.organization, artifact.id)
                told = deleted(artifact.generation_id, artifact.id, actor)
                await activity.append(connection, artifact.organization, now, told)
            return True

        await reach("generations.delete_artifact")
        if await self._store.delete_with(key_of(artifact.id), write):
            self._bus.announce("activity", artifact.organization)
