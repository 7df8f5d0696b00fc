"""Putting and dropping tags at any time: on the owner's row while a generation is in flight, as
rows of the library afterwards. Doing it twice changes nothing."""

from dataclasses import replace

from safelight.errors import InvalidRequest, NotFound
from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.tags import MOST
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach


class Tagging:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def put_on_generation(self, organization: str, generation_id: str, tag: str) -> None:
        async with self._db.transaction() as connection:
            if not await self._in_flight(connection, generation_id, tag, present=True):
                await self._put(connection, organization, "generation", tag, generation_id)

    async def drop_from_generation(self, organization: str, generation_id: str, tag: str) -> None:
        async with self._db.transaction() as connection:
            if not await self._in_flight(connection, generation_id, tag, present=False):
                await reach("generations.drop_tag")
                await library.drop_tag(connection, organization, "generation", tag, generation_id)

    async def put_on_artifact(self, organization: str, artifact_id: str, tag: str) -> None:
        async with self._db.transaction() as connection:
            if not await library.lock_artifact(connection, artifact_id):
                raise NotFound
            await self._put(connection, organization, "artifact", tag, artifact_id)

    async def drop_from_artifact(self, organization: str, artifact_id: str, tag: str) -> None:
        async with self._db.transaction() as connection:
            await reach("generations.drop_artifact_tag")
            await library.drop_tag(connection, organization, "artifact", tag, artifact_id)

    async def _put(
        self, connection: Connection, organization: str, kind: str, tag: str, target: str
    ) -> None:
        await reach("generations.put_tag")
        await library.put_tag(connection, organization, kind, tag, target)
        if await library.tag_count(connection, kind, target) > MOST:
            raise _too_many()

    async def _in_flight(
        self, connection: Connection, generation_id: str, tag: str, *, present: bool
    ) -> bool:
        """Whether the generation is in flight, and has been dealt with."""
        before = await repo.lock(connection, generation_id)
        if before is None or before.status.over:
            return False
        others = tuple(one for one in before.tags if one != tag)
        after = replace(before, tags=(*others, tag) if present else others)
        if len(after.tags) > MOST:
            raise _too_many()
        await reach("generations.tag_in_flight")
        await repo.save(connection, before, after)
        return True


def _too_many() -> InvalidRequest:
    return InvalidRequest(f"tag: at most {MOST} tags; drop one first.")
