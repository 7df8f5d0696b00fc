"""Writes to a bucket that are not known to have ended: makes bucket, index and events agree.

A key is looked at when all its tickets are due: no request of theirs can still be applied, so what
the bucket holds is what it will hold. The index says what was decided; a bucket that a late write
of ours has made differ is brought back to it, and of what came from elsewhere it tells. The
bucket is asked outside of any transaction; what follows from its answer is written only if the
key is still as it was, else one looks again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, assert_never

from safelight.infra.activity import Units
from safelight.objects import repo
from safelight.objects.events import Action
from safelight.objects.store import (
    Cleared,
    Facts,
    Landed,
    NoSuchObject,
    ObjectInfo,
    Place,
    Unsettled,
)

_BATCH = 200
_LOOKS = 3
_LATER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of an image: `under_way` to the store, `failed` to get there, and whether there
    is a file of it."""

    under_way: bool
    has_file: bool
    failed: bool = False


class SettledStore(Protocol):
    """What is asked of a bucket."""

    async def head(self, key: str) -> ObjectInfo:
        """Raises `NoSuchObject`."""

    async def erase(self, seen: Unsettled) -> None:
        """Takes away what the key should not hold. What was recorded since it was seen so stands,
        and is put back if this has hit it."""


class Originals(Protocol):
    """Where the bytes of uploads come from; ingest knows."""

    async def standing(self, images: Sequence[str]) -> Mapping[str, Standing]:
        """Of those that were recorded here."""

    async def put_back(self, image: str) -> None:
        """Has an image's bytes brought to the bucket again."""


@dataclass(frozen=True, slots=True)
class Agree:
    """Bucket and index do."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Index and events follow the bucket."""


@dataclass(frozen=True, slots=True)
class Erase:
    """The bucket holds what was beaten, and its name was deleted: the bucket follows the index."""


@dataclass(frozen=True, slots=True)
class Restore:
    """The same, and the index has an image."""

    image: str


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """The image has a job of its own, which answers for it."""


Settlement = Agree | Tell | Erase | Restore | LeaveAlone


def settle(
    seen: Unsettled,
    held: ObjectInfo | None,
    standing: Mapping[str, Standing],
    *,
    telling: bool,
) -> Settlement:
    """`standing` is that of the images that the bucket holds and the index has."""
    indexed = seen.indexed
    if held is None:
        return _nothing_held(seen, standing, telling=telling)
    if indexed and (indexed.etag, indexed.metadata) == (held.etag, held.metadata):
        return Agree()
    found = standing.get(_image(held))
    if found is None:
        return Tell()
    if found.under_way:
        return LeaveAlone()
    if indexed is None:
        # What is here of an image that FAILED may be all there is of it: a person decides.
        return Agree() if found.failed else Erase()
    return Tell() if _image(indexed) == _image(held) else _brought_back(indexed, standing)


def _nothing_held(
    seen: Unsettled, standing: Mapping[str, Standing], *, telling: bool
) -> Settlement:
    if seen.indexed is None:
        return Agree()
    deletes = [ticket for ticket in seen.tickets if ticket.action is Action.DELETED]
    # Nothing was recorded since: the delete was the last word, and nobody could say so. And what a
    # telling bucket loses without us, somebody took.
    if any(ticket.seen == seen.last for ticket in deletes) or (telling and not deletes):
        return Tell()
    return _brought_back(seen.indexed, standing)


def _brought_back(indexed: ObjectInfo, standing: Mapping[str, Standing]) -> Settlement:
    """Without a file the bucket is all there is."""
    found = standing.get(_image(indexed))
    return Restore(_image(indexed)) if found and found.has_file else Tell()


def _image(info: ObjectInfo) -> str:
    return info.metadata.get("imageId", "")


class Reconcile:
    def __init__(
        self, units: Units, store: SettledStore, originals: Originals, *, telling: bool
    ) -> None:
        self._units = units
        self._db = units.db
        self._store = store
        self._originals = originals
        self._place = Place.TELLING_BUCKET if telling else Place.BUCKET

    async def run(self) -> int:
        """Until none is left that could be; returns how many keys are settled."""
        settled, some, keys = 0, _BATCH, [""] * _BATCH
        while some and len(keys) == _BATCH:
            keys = await repo.due_keys(self._db, _BATCH)
            some = sum([await self._settle(key) for key in keys])
            settled += some
        return settled

    async def _settle(self, key: str) -> bool:
        for _ in range(_LOOKS):
            seen, held = await repo.unsettled(self._db, key), await self._held(key)
            if not seen.tickets:
                return True
            settlement = await self._decide(seen, held)
            if await repo.unsettled(self._db, key) != seen:
                continue  # what the images are was asked after what the index says
            match settlement:
                case Agree():
                    if await self._end(seen):
                        return True
                case Tell():
                    if await self._tell(seen, held):
                        return True
                case Erase():
                    await self._store.erase(seen)
                case Restore() | LeaveAlone():
                    await self._leave_to_a_job(seen, settlement)
                    return False
                case never:
                    assert_never(never)
        return False

    async def _decide(self, seen: Unsettled, held: ObjectInfo | None) -> Settlement:
        images = {_image(info) for info in (seen.indexed, held) if info} - {""}
        standing = await self._originals.standing(sorted(images)) if images else {}
        return settle(seen, held, standing, telling=self._place is Place.TELLING_BUCKET)

    async def _end(self, seen: Unsettled) -> bool:
        async with self._units.open("") as unit:
            if not await repo.hold(unit.connection, seen):
                return False
            await repo.redeem(unit.connection, seen.ids)
        return True

    async def _tell(self, seen: Unsettled, held: ObjectInfo | None) -> bool:
        """Brings index and events to what the bucket holds."""
        async with self._units.open("") as unit:
            if not await repo.hold(unit.connection, seen):
                return False
            if held is None:
                await repo.delete(unit.connection, seen.key, Cleared(self._place), unit.now)
            else:
                facts = Facts(held.content_type, held.metadata)
                landed = Landed(self._place, held.etag, held.size, sha256="")
                await repo.put(unit.connection, seen.key, landed, facts, unit.now)
            await repo.redeem(unit.connection, seen.ids)
        return True

    async def _leave_to_a_job(self, seen: Unsettled, settlement: Restore | LeaveAlone) -> None:
        if isinstance(settlement, Restore):
            await self._originals.put_back(settlement.image)
        await repo.put_off(self._db, seen, _LATER)

    async def _held(self, key: str) -> ObjectInfo | None:
        try:
            return await self._store.head(key)
        except NoSuchObject:
            return None
