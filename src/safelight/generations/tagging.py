"""Putting and removing tags at any time: on the owner's row while a generation is in flight, as
rows of the library afterwards. Doing it twice changes nothing."""

from dataclasses import replace

from safelight.errors import InvalidRequest, NotFound
from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.request import MOST_TAGS
from safelight.infra.activity import Unit, Units


class Tagging:
    def __init__(self, units: Units) -> None:
        self._units = units

    async def put_on_generation(self, organization: str, generation_id: str, tag: str) -> None:
        async with self._units.open(organization) as unit:
            if not await _in_flight(unit, generation_id, tag, present=True):
                await _put(unit, "generation", tag, generation_id)

    async def remove_from_generation(self, organization: str, generation_id: str, tag: str) -> None:
        async with self._units.open(organization) as unit:
            if not await _in_flight(unit, generation_id, tag, present=False):
                await _remove(unit, "generation", tag, generation_id)

    async def put_on_artifact(self, organization: str, artifact_id: str, tag: str) -> None:
        async with self._units.open(organization) as unit:
            if not await library.lock(unit.connection, artifact_id):
                raise NotFound
            await _put(unit, "artifact", tag, artifact_id)

    async def remove_from_artifact(self, organization: str, artifact_id: str, tag: str) -> None:
        async with self._units.open(organization) as unit:
            await _remove(unit, "artifact", tag, artifact_id)


async def _put(unit: Unit, kind: str, tag: str, target: str) -> None:
    await library.put_tag(unit.connection, unit.organization, kind, tag, target)
    if await library.tag_count(unit.connection, kind, target) > MOST_TAGS:
        raise _too_many()


async def _remove(unit: Unit, kind: str, tag: str, target: str) -> None:
    await library.remove_tag(unit.connection, unit.organization, kind, tag, target)


async def _in_flight(unit: Unit, generation_id: str, tag: str, *, present: bool) -> bool:
    """Whether the generation is in flight, and has been dealt with."""
    before = await repo.lock(unit.connection, generation_id)
    if before is None or before.status.over:
        return False
    others = tuple(one for one in before.tags if one != tag)
    after = replace(before, tags=(*others, tag) if present else others)
    if len(after.tags) > MOST_TAGS:
        raise _too_many()
    await repo.save(unit.connection, before, after)
    return True


def _too_many() -> InvalidRequest:
    return InvalidRequest(f"tag: at most {MOST_TAGS} tags; drop one first.")
