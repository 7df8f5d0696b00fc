"""The built-in store: content-addressed files, and an index in the database.

A put first makes its bytes safe as a blob nobody refers to, then writes index, event and delivery
job in one transaction. Killed in between, it leaves at most a stray file, which collection sets
aside.

Blobs are files under their SHA-256 (blobs.py). Guarantee: a blob row whose state is live has its
file, at every moment and after every crash:

- A put holds its shard's lock shared from before it looks at the file until its rows are committed.
- A file is removed only under the shard's exclusive lock, after its row was condemned and that was
  committed; the row goes after the file.
- Before a removal the shard's epoch is raised, and a put's rows are refused when it changed since
  the put looked: so the last statement of a put whose process, and with it its lock, is gone does
  no harm.
"""

import os
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from safelight.errors import Overwritten
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.files import (
    ByteSource,
    Spool,
    close_at_once,
)
from safelight.infra.injected import Clock, Ids
from safelight.objects import repo
from safelight.objects.blobs import Blobs, Staged
from safelight.objects.keys import owner_of, within
from safelight.objects.store import (
    Beaten,
    Cleared,
    Content,
    DamagedObject,
    DeleteWrite,
    Facts,
    Landed,
    Listed,
    NoSuchObject,
    ObjectInfo,
    Place,
    PutWrite,
    R,
    Retake,
    Still,
    StoreUnavailable,
    Written,
)

_TAKES = 4


class LocalStore:
    telling = False

    def __init__(self, db: Database, blobs: Blobs, clock: Clock, ids: Ids) -> None:
        self._db = db
        self._blobs = blobs
        self._clock = clock
        self._spool = Spool(blobs.drafts, ids)
        self._epochs: dict[str, int] = {}

    async def close(self) -> None:
        self._spool.close()

    async def check(self) -> None:
        self._blobs.ensure_there()
        if not os.access(self._blobs.root, os.W_OK):
            raise StoreUnavailable.because(f"{self._blobs.root} cannot be written.")

    async def put(self, key: str, source: ByteSource, facts: Facts) -> Written:
        async def write(landed: Landed) -> Written:
            return await repo.put(self._db, key, landed, facts, self._clock.now_ms())

        return await self.put_with(key, source, facts, write)

    async def put_with(
        self,
        key: str,
        source: ByteSource,
        facts: Facts,
        write: PutWrite[R],
        beaten: Beaten[R] | None = None,  # noqa: ARG002 - bytes replace others only in `write`
    ) -> R:
        owner_of(key)
        async with self._spool.on_disk(source) as file:
            known = file.measured or facts.seen
            staged = await self._spool.run(self._blobs.stage, file.path, known, facts.sha256)
            try:
                return await self._commit_put(file.path, staged, write)
            finally:
                staged.hold.release()

    async def _commit_put(self, path: Path, staged: Staged, write: PutWrite[R]) -> R:
        """Writes the file again when its row is refused; the hold keeps it there meanwhile."""
        what, written = staged.what, staged.written
        shard = what.sha256[:2]
        for _ in range(_TAKES):
            epoch = self._epochs.get(shard, 0)
            landed = Landed(Place.BLOB, what.sha256, what.size, what.sha256, epoch, written)
            try:
                await reach("objects.record_put")
                return await write(landed)
            except Retake:
                self._epochs[shard] = await repo.epoch(self._db, shard)
                written = await self._spool.run(self._blobs.place, path, what, anew=True)
        raise StoreUnavailable(f"The row of blob {what.sha256} is refused again and again.")

    async def delete(self, key: str) -> Written:
        async def write(cleared: Cleared) -> Written:
            return await repo.delete(self._db, key, cleared, self._clock.now_ms())

        return await self.delete_with(key, write)

    async def delete_with(self, key: str, write: DeleteWrite[R]) -> R:
        owner_of(key)
        await reach("objects.record_delete")
        return await write(Cleared(Place.BLOB))

    async def delete_if(self, key: str, _: Still, write: DeleteWrite[bool]) -> bool:
        return await self.delete_with(key, write)

    async def head(self, key: str) -> ObjectInfo:
        info, _ = await self._find(key)
        return info

    async def get(
        self, key: str, start: int = 0, stop: int | None = None, etag: str | None = None
    ) -> Content:
        info, blob = await self._find(key)
        if etag not in {None, info.etag}:
            raise Overwritten
        first, end = within(info.size, start, stop)
        opening = partial(self.open_blob, blob, info.size)
        return Content(info, first, end, self._chunks(blob, first, end), opening, blob)

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Listed]:
        return await repo.listed(self._db, prefix, after, limit)

    async def _find(self, key: str) -> tuple[ObjectInfo, str]:
        found = await repo.find(self._db, key)
        if found is None or found[1] is None:
            raise NoSuchObject
        return found[0], found[1]

    def open_blob(self, blob: str, size: int) -> int:
        file = self._blobs.open(blob)
        try:
            self._blobs.expect(blob, file, size)
        except BaseException:
            close_at_once(file)
            raise
        return file

    async def _chunks(self, blob: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Opened when first asked: a blob outlives its object by the grace period."""
        file = self._blobs.open(blob)
        try:
            while start < stop:
                chunk = await self._spool.run(self._blobs.piece, blob, file, start)
                if not chunk:
                    raise DamagedObject
                yield chunk[: stop - start]
                start += len(chunk)
        finally:
            close_at_once(file)
