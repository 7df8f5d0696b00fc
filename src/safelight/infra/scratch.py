"""Bytes that somebody has to look at before they are wanted, or only to look at them: on disk under
no name, so that they are gone with the process, however that ends."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Self

from safelight.infra.files import CHUNK


class Scratch:
    def __init__(self, directory: Path) -> None:
        self.file: BinaryIO = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - see __exit__
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    async def fill(self, pieces: AsyncIterator[bytes]) -> None:
        gathered = bytearray()
        async for piece in pieces:
            gathered += piece
            if len(gathered) >= CHUNK:
                await self._write(gathered)
                gathered = bytearray()
        await self._write(gathered)
        await asyncio.to_thread(self.file.flush)

    async def chunks(self) -> AsyncIterator[bytes]:
        at = 0
        while chunk := await asyncio.to_thread(self._read, at, CHUNK):
            yield chunk
            at += len(chunk)

    async def _write(self, content: bytearray) -> None:
        await asyncio.to_thread(self.file.write, content)
        self.size += len(content)

    def _read(self, at: int, count: int) -> bytes:
        self.file.seek(at)
        return self.file.read(count)
