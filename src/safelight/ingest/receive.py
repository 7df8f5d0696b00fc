"""A request's body becomes a durable file with a checksum and a header, or nothing at all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from safelight.ingest.contract import ChecksumError, InvalidFileType, UploadTooLarge
from safelight.ingest.directory import Incoming
from safelight.ingest.multipart import FilePart
from safelight.ingest.probe import HEADER_BYTES, ImageHeader, NotAnImage, read_header

_HOP_BYTES = 1024 * 1024  # one thread hop per this much, so that small files need only one
_MULTIPART_OVERHEAD = 64 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    max_bytes: int
    max_pixels: int
    accepted_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Received:
    path: Path
    file_name: str
    header: ImageHeader
    checksum: str
    size: int


class Receiver:
    """Takes one upload in. The caller owns `incoming` and discards it when this raises."""

    def __init__(self, incoming: Incoming, limits: Limits, executor: Executor) -> None:
        self._incoming = incoming
        self._limits = limits
        self._executor = executor
        self._head = bytearray()
        self._header: ImageHeader | None = None

    async def receive(
        self, content_type: str, stream: AsyncIterator[bytes], expected_checksum: str | None
    ) -> Received:
        part = FilePart(content_type)
        async for chunk in stream:
            part.feed(chunk)
            self._check_size(part)
            if part.waiting >= _HOP_BYTES:
                await self._hop(self._store, part.take())
        part.end()
        path = await self._hop(self._finish, part.take(), expected_checksum)
        assert self._header is not None  # noqa: S101 - _finish has set it
        return Received(
            path,
            part.file_name or "",
            self._header,
            self._incoming.checksum,
            self._incoming.size,
        )

    def _check_size(self, part: FilePart) -> None:
        if part.size > self._limits.max_bytes:
            raise too_large(self._limits.max_bytes)

    async def _hop(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs blocking work in a thread and never leaves it running behind our back: a cancelled
        request waits for its thread, so that a discard cannot race a write."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def _store(self, chunks: list[memoryview]) -> None:
        self._read_head(chunks)
        if len(self._head) >= HEADER_BYTES:
            self._check_header(complete=False)
        self._incoming.write(chunks)

    def _finish(self, chunks: list[memoryview], expected_checksum: str | None) -> Path:
        self._store(chunks)
        header = self._check_header(complete=self._incoming.size <= HEADER_BYTES)
        if expected_checksum is not None and expected_checksum.lower() != self._incoming.checksum:
            raise ChecksumError
        return self._incoming.finish(header.extension)

    def _read_head(self, chunks: list[memoryview]) -> None:
        for chunk in chunks:
            missing = HEADER_BYTES - len(self._head)
            if missing <= 0:
                return
            self._head += chunk[:missing]

    def _check_header(self, *, complete: bool) -> ImageHeader:
        if self._header is None:
            self._header = _acceptable(bytes(self._head), complete, self._limits)
        return self._header


def _acceptable(head: bytes, complete: bool, limits: Limits) -> ImageHeader:
    try:
        header = read_header(head, complete=complete)
    except NotAnImage as error:
        raise InvalidFileType(str(error)) from error
    if header.mime_type not in limits.accepted_types:
        accepted = ", ".join(limits.accepted_types)
        raise InvalidFileType(f"{header.mime_type} is not accepted here. Accepted: {accepted}.")
    if header.width * header.height > limits.max_pixels:
        raise UploadTooLarge(
            f"The image is {header.width} × {header.height} pixels; "
            f"at most {limits.max_pixels / 1e6:g} megapixels are accepted."
        )
    return header


def check_declared_length(length: int | None, limits: Limits) -> None:
    """Refuses before the first byte what its Content-Length already condemns."""
    if length is not None and length > limits.max_bytes + _MULTIPART_OVERHEAD:
        raise too_large(limits.max_bytes)


def too_large(max_bytes: int) -> UploadTooLarge:
    if max_bytes >= 1024 * 1024:
        return UploadTooLarge(f"The file is over the limit of {max_bytes / 1024**2:g} MiB.")
    return UploadTooLarge(f"The file is over the limit of {max_bytes} bytes.")
