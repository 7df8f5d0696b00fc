"""Large thumbnails: made when somebody first asks, kept in the store, collected with their image.

Each has a row from before its object is put until after it is deleted, so that none is ever lost
sight of, wherever a process dies: a row that did not become its entry's in time is collected, and
so are those of entries that were deleted or replaced, by a job that the same transaction enqueues.
Deleting an object twice, or one that never came to be, changes nothing.

Many who ask at once have it made once; of two processes that make the same, one is kept. They do
not count as stored bytes: nobody uploads them, and they can be made again.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from safelight.errors import NotFound, RateLimited, Unavailable
from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock, Ids
from safelight.infra.turns import Turns
from safelight.library.thumbnails import repo
from safelight.library.thumbnails.repo import LargeThumbnail
from safelight.objects.keys import object_key
from safelight.objects.store import Content, Facts, NoSuchObject, ObjectStore
from safelight.sandbox.sandbox import Sandbox, SandboxDown, SandboxTimeout, TaskDied, cores

SIDE: Final = 1280
TYPE: Final = "image/webp"
_LARGEST: Final = 256 * 1024 * 1024  # of an original: the child holds it in memory
_MOST_WAITING: Final = 64  # of one organization, in this process
_MAKING_MS: Final = 60 * 60 * 1000  # far longer than anybody is at it
_SOON: Final = 5
_UNDRAWABLE: Final = 1000
_AT_A_TIME: Final = 100

Wanted = tuple[str, str, str]  # organization, name, marker


class TooManyWaiting(RateLimited):
    """Many large pictures of this organization are being made already. Ask again in a moment."""


class DrawingAway(Unavailable):
    """The picture cannot be made right now. Try again in a moment."""


class LargeThumbnails:
    def __init__(
        self,
        db: Database,
        store: ObjectStore,
        sandbox: Sandbox,
        clock: Clock,
        ids: Ids,
        *,
        drawing: bool = True,
    ) -> None:
        """Without `drawing`, only what is there is shown."""
        self._db = db
        self._store = store
        self._sandbox = sandbox
        self._clock = clock
        self._ids = ids
        self._drawing = drawing
        self._turns = Turns(cores(), guests=True)
        self._making: dict[Wanted, asyncio.Task[None]] = {}
        self._undrawable: dict[Wanted, None] = {}

    async def close(self) -> None:
        """Whoever asked hears that it came to nothing; what is half made is collected."""
        for task in (tasks := list(self._making.values())):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def find(self, organization: str, name: str) -> tuple[LargeThumbnail, Content]:
        """As it is kept, made now if need be. Raises `NotFound`."""
        for _ in range(2):
            found = await self._entry(organization, name)
            if found.key is None:
                await self._made((organization, name, found.marker))
                found = await self._entry(organization, name)
            if found.key is None:
                break
            try:
                return found, await self._store.get(found.key)
            except NoSuchObject:  # as after a backup from before it was made
                await repo.give_up(self._db, found.key, self._clock.now_ms())
        raise NotFound

    async def _entry(self, organization: str, name: str) -> LargeThumbnail:
        found = await repo.large(self._db, organization, name)
        if found is None:
            raise NotFound
        if found.key is None and not (self._drawing and found.labelled):
            raise NotFound
        return found

    async def _made(self, wanted: Wanted) -> None:
        """Once, however many ask; who stops waiting takes it from nobody."""
        if wanted in self._undrawable:
            raise NotFound
        task = self._making.get(wanted)
        if task is None:
            if (
                sum(organization == wanted[0] for organization, _, _ in self._making)
                >= _MOST_WAITING
            ):
                raise TooManyWaiting(retry_after=_SOON)
            task = self._making[wanted] = asyncio.create_task(self._make(wanted))
            task.add_done_callback(lambda ended: self._over(wanted, ended))
        await asyncio.shield(task)

    def _over(self, wanted: Wanted, task: "asyncio.Task[None]") -> None:
        del self._making[wanted]
        if not task.cancelled():
            task.exception()  # for those who asked, if they are still there

    async def _make(self, wanted: Wanted) -> None:
        async with self._turns.turn():
            drawn = await self._drawn(wanted)
        if drawn is None:
            if len(self._undrawable) >= _UNDRAWABLE:
                del self._undrawable[next(iter(self._undrawable))]
            self._undrawable[wanted] = None
            raise NotFound
        await self._keep(wanted, drawn)

    async def _drawn(self, wanted: Wanted) -> bytes | None:
        organization, name, marker = wanted
        content = await self._store.get(object_key(organization, name))
        held = content.info.metadata.get("idempotencyKey")
        if held is not None and held != marker:
            raise NotFound
        if content.info.size > _LARGEST:
            return None
        try:
            async with content.source() as source:
                return await self._sandbox.thumbnail(source, SIDE)
        except TaskDied:
            return None
        except (SandboxTimeout, SandboxDown) as error:
            raise DrawingAway from error

    async def _keep(self, wanted: Wanted, drawn: bytes) -> None:
        now = self._clock.now_ms()
        key = f"thumbnails/{wanted[0]}/{self._ids.short('thumbnail')}"
        await repo.begin(self._db, key, *wanted, now, now + _MAKING_MS)
        await reach("library.put_thumbnail")
        await self._store.put(key, _once(drawn), Facts(TYPE))
        if not await repo.keep(self._db, key, *wanted):
            await self._collect(key)

    # Collecting

    async def collect(self) -> int:
        """Those of entries that are gone, and those whose makers are."""
        count = 0
        while keys := await repo.ended(self._db, self._clock.now_ms(), _AT_A_TIME):
            for key in keys:
                await self._collect(key)
            count += len(keys)
        return count

    async def _collect(self, key: str) -> None:
        await reach("library.delete_thumbnail")
        await self._store.delete(key)
        await repo.collected(self._db, key)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
