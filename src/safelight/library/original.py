"""An original as it is served: whatever its name holds, and never a part of two."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from safelight.http.content import ReadPart, Stored
from safelight.objects.store import ObjectInfo, ObjectStore


@dataclass(frozen=True, slots=True)
class ServedOriginal:
    store: ObjectStore
    key: str
    name: str

    async def look(self) -> Stored:
        return self._stored(await self.store.head(self.key))

    async def read(self, start: int, stop: int | None) -> ReadPart:
        found = await self.store.get(self.key, start, stop)
        return ReadPart(self._stored(found.info), found.start, found.stop, found.chunks)

    def _stored(self, info: ObjectInfo) -> Stored:
        async def read(start: int, stop: int) -> AsyncIterator[bytes]:
            return (await self.store.get(self.key, start, stop, info.etag)).chunks

        return Stored(info.size, info.content_type, info.etag, read, self.name)
