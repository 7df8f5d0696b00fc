"""Threads for work on files, and a directory where streams become files for a while."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from safelight.infra.ids import Ids
from safelight.objects.files import Measured, Receiving
from safelight.objects.store import CHUNK, Source

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 8


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A source as a file, measured if it came as a stream."""

    path: Path
    measured: Measured | None = None


class Spool:
    def __init__(self, directory: Path, ids: Ids) -> None:
        self._directory = directory
        self._ids = ids
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="objects")

    def close(self) -> None:
        self._executor.shutdown()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread. Also when cancelled it ends only after the work, which may hold files."""
        call = partial(work, *args, **kwargs)
        future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            raise

    @asynccontextmanager
    async def on_disk(self, source: Source) -> AsyncIterator[OnDisk]:
        if isinstance(source, Path):
            yield OnDisk(source)
            return
        receiving = Receiving(self._directory / self._ids.short("draft"))
        try:
            yield OnDisk(receiving.path, await self._receive(source, receiving))
        finally:
            receiving.discard()

    async def _receive(self, source: AsyncIterable[bytes], receiving: Receiving) -> Measured:
        gathered = bytearray()
        async for chunk in source:
            gathered += chunk
            if len(gathered) >= CHUNK:
                await self.run(receiving.write, gathered)
                gathered = bytearray()
        return await self.run(receiving.finish, gathered)
