"""Small pictures of artifacts: made when somebody first asks, once however many ask, and kept."""

import asyncio
from typing import Final

from safelight.errors import NotFound, RateLimited, Unavailable
from safelight.generations.artifacts.thumbnails import repo
from safelight.generations.lifecycle import Artifact, key_of
from safelight.infra.db import Database
from safelight.infra.turns import Turns
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.sandbox.sandbox import Sandbox, SandboxDown, SandboxTimeout, TaskDied, cores

SIDE: Final = 320
TYPE: Final = "image/webp"
_LARGEST: Final = 256 * 1024 * 1024  # of an original: the child holds it in memory
_MOST_WAITING: Final = 256  # in this process
_UNDRAWABLE: Final = 1000
_SOON: Final = 5


class ManyThumbnails(RateLimited):
    """Many small pictures are being made already. Ask again in a moment."""


class ThumbnailAway(Unavailable):
    """The small picture cannot be made right now. Try again in a moment."""


class ArtifactThumbnails:
    def __init__(
        self, db: Database, store: ObjectStore, sandbox: Sandbox, *, drawing: bool
    ) -> None:
        """Without `drawing`, only what is there is shown."""
        self._db = db
        self._store = store
        self._sandbox = sandbox
        self._drawing = drawing
        self._turns = Turns(cores(), guests=True)
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._undrawable: dict[str, None] = {}

    async def close(self) -> None:
        for task in (tasks := list(self._making.values())):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def find(self, artifact: Artifact) -> bytes:
        """Raises `NotFound` for what cannot be drawn, as a video."""
        kept = await repo.find(self._db, artifact.id)
        return kept if kept is not None else await self._made(artifact)

    async def _made(self, artifact: Artifact) -> bytes:
        """Who stops waiting takes it from nobody."""
        drawable = artifact.content_type.startswith("image/") and artifact.size_bytes <= _LARGEST
        if not self._drawing or not drawable or artifact.id in self._undrawable:
            raise NotFound
        task = self._making.get(artifact.id)
        if task is None:
            if len(self._making) >= _MOST_WAITING:
                raise ManyThumbnails(retry_after=_SOON)
            task = self._making[artifact.id] = asyncio.create_task(self._make(artifact))
            task.add_done_callback(lambda ended: self._over(artifact.id, ended))
        return await asyncio.shield(task)

    def _over(self, artifact_id: str, task: "asyncio.Task[bytes]") -> None:
        del self._making[artifact_id]
        if not task.cancelled():
            task.exception()  # for those who asked, if they are still there

    async def _make(self, artifact: Artifact) -> bytes:
        async with self._turns.turn():
            drawn = await self._drawn(artifact)
        if drawn is None:
            if len(self._undrawable) >= _UNDRAWABLE:
                del self._undrawable[next(iter(self._undrawable))]
            self._undrawable[artifact.id] = None
            raise NotFound
        await repo.keep(self._db, artifact.id, drawn)
        return drawn

    async def _drawn(self, artifact: Artifact) -> bytes | None:
        try:
            content = await self._store.get(key_of(artifact.id))
            async with content.source() as source:
                return await self._sandbox.thumbnail(source, SIDE)
        except NoSuchObject as error:
            raise NotFound from error
        except TaskDied:
            return None
        except (SandboxTimeout, SandboxDown) as error:
            raise ThumbnailAway from error
