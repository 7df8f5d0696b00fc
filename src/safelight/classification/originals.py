"""The bytes a run looks at, and whether they are those of its image.

Whoever stored an object in this process says so (`remember`), and its run need not ask the index:
in the built-in store the SHA-256 and the size of a blob are enough to open it, and it outlives its
object. Otherwise the index is asked. A run that is for nothing by then has looked in vain; its
guarded write drops what it found.

Nobody reads an original on its way into the store only to hash it: whoever reads it next does,
which is the child that decodes it. Bytes that are not what their name says are damage, and whoever
keeps the files is told.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from safelight.classification.base import Undecodable
from safelight.infra.files import close_at_once
from safelight.infra.fresh import Fresh
from safelight.objects.keys import object_key
from safelight.objects.store import BlobFiles, DamagedObject, ObjectStore

_LARGEST: Final = 256 * 1024 * 1024  # the bytes are held in memory, for as many as run at once

Key = tuple[str, str, str]  # organization, name, marker


class Superseded(Exception):
    """The object in the store is not the one this run is for."""


@dataclass(frozen=True, slots=True)
class Original:
    """For a child: the bytes, or a descriptor that is open as long as it is used. `sha256` is what
    they should be, where that is known."""

    source: bytes | int
    sha256: str | None = None


class RunOriginals:
    def __init__(self, store: ObjectStore, files: BlobFiles | None) -> None:
        """`files`: where the store keeps its objects, if that is the built-in one."""
        self._store = store
        self._files = files
        self._fresh: Fresh[Key, tuple[str, int]] = Fresh()

    def remember(self, organization: str, name: str, marker: str, sha256: str, size: int) -> None:
        """What this process has just stored."""
        if self._files is not None:
            self._fresh.remember((organization, name, marker), (sha256, size))

    @asynccontextmanager
    async def open(self, key: Key) -> AsyncIterator[Original]:
        """Raises `NoSuchObject`, `Superseded`, `DamagedObject`, and `Undecodable` for too much."""
        fresh = self._opened(key)
        if fresh is None:
            async with self._indexed(key) as original:
                yield original
            return
        file, sha256 = fresh
        try:
            yield Original(file, sha256)
        finally:
            close_at_once(file)

    async def check(self, original: Original, digest: str | None) -> None:
        """Raises unless these are the bytes they should be."""
        if None in (original.sha256, digest) or original.sha256 == digest:
            return
        await self._suspect(original.sha256)
        raise DamagedObject

    def _opened(self, key: Key) -> tuple[int, str] | None:
        """Once: whatever is wrong with what is remembered, the index knows better."""
        remembered = self._fresh.take(key)
        if remembered is None or self._files is None or remembered[1] > _LARGEST:
            return None
        with suppress(DamagedObject):
            return self._files.open(*remembered), remembered[0]
        return None

    @asynccontextmanager
    async def _indexed(self, key: Key) -> AsyncIterator[Original]:
        organization, name, marker = key
        content = await self._store.get(object_key(organization, name))
        held = content.info.metadata.get("idempotencyKey")
        if held is not None and held != marker:
            raise Superseded
        if content.info.size > _LARGEST:
            raise Undecodable("The file is too large to be classified. Upload a smaller version.")
        try:
            async with content.source() as source:
                yield Original(source, content.sha256)
        except DamagedObject:
            await self._suspect(content.sha256)
            raise

    async def _suspect(self, sha256: str | None) -> None:
        if self._files and sha256:
            await self._files.suspect(sha256)
