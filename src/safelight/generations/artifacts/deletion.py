"""Deleting an artifact for good: bytes, row and tags in one unit of work. That it once was stays
known, so that deleting it again is no error."""

from collections.abc import Awaitable, Callable, Mapping

from safelight.generations.artifacts import repo
from safelight.generations.lifecycle import Artifact, artifact_deleted, key_of
from safelight.infra.activity import Unit, Units
from safelight.infra.failpoints import reach
from safelight.objects import repo as objects
from safelight.objects.store import Cleared, ObjectStore

# Called in the unit with the artifact's id.
WhenDeleted = Callable[[Unit, str], Awaitable[None]]


class ArtifactDeletion:
    def __init__(
        self, units: Units, store: ObjectStore, when_deleted: WhenDeleted | None = None
    ) -> None:
        self._units = units
        self._store = store
        self._when_deleted = when_deleted

    async def delete(self, artifact: Artifact, actor: Mapping[str, str]) -> None:
        async def write(cleared: Cleared) -> None:
            async with self._units.open(artifact.organization) as unit:
                await objects.delete(unit.connection, key_of(artifact.id), cleared, unit.now)
                if not await repo.remove(unit.connection, artifact.id, unit.now):
                    return  # somebody else has just deleted it
                if self._when_deleted:
                    await self._when_deleted(unit, artifact.id)
                unit.tell(artifact_deleted(artifact, actor))

        await reach("generations.delete_artifact")
        await self._store.delete_with(key_of(artifact.id), write)
