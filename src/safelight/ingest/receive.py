"""A request's body becomes a durable file with a checksum and a header, or nothing at all."""

import errno
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from safelight.headers.probe import (
    HEADER_BYTES,
    HeaderTooLong,
    ImageHeader,
    NotAnImage,
    read_file_header,
    read_header,
)
from safelight.headers.refusals import too_many_bytes, too_many_pixels
from safelight.infra.failpoints import hit
from safelight.infra.files import close_at_once, write_chunks
from safelight.infra.injected import ImageId
from safelight.infra.threads import Threads
from safelight.infra.turns import Turns
from safelight.ingest.contract import (
    ChecksumError,
    InvalidFileType,
    StorageError,
    StorageFull,
    StreamError,
    UploadTooLarge,
)
from safelight.ingest.directory import IngestDirectory

_HOP_BYTES = 1024 * 1024  # one thread hop per this much, so that small files need only one
_MULTIPART_OVERHEAD = 64 * 1024
_MAX_PARTS = 16
_FULL = {errno.ENOSPC, errno.EDQUOT}
# What browsers, curl and Python's clients escape in a part's file name (WHATWG); a lone % stays.
_ESCAPED = re.compile("%(22|0D|0A)", re.IGNORECASE)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UploadLimits:
    max_bytes: int
    max_pixels: int
    accepted_types: tuple[str, ...]
    at_once: int = 64  # of one organization, on their way


@dataclass(frozen=True, slots=True)
class Received:
    path: Path
    file_name: str
    header: ImageHeader
    checksum: str
    size: int


class FilePart:
    """Finds the one `file` part in a multipart body as its chunks arrive. Copies nothing: feed it
    chunks; `take` hands out the file's bytes that have arrived since the last call.

    The parser is python-multipart's; here are our rules: exactly one file, small headers, and
    "complete" means that the closing boundary was seen, not that the connection ended."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise StreamError("Send the image as multipart/form-data with one part named `file`.")
        self.file_name: str | None = None
        self.size = 0
        self._pending: list[memoryview] = []
        self._parts = 0
        self._inside_file = False
        self._seen = False
        self._ended = False
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[bytes, bytes] = {}
        try:
            self._parser = MultipartParser(boundary, self._callbacks())
        except FormParserError as error:
            raise StreamError("The multipart boundary is too long.") from error

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise StreamError("The body is not well-formed multipart/form-data.") from error

    def end(self) -> None:
        if not self._ended:
            raise StreamError("The upload broke off before its end.")
        if not self._seen:
            raise InvalidFileType("There is no part named `file` in the upload.")
        if self.size == 0:
            raise InvalidFileType("The file is empty.")

    def take(self) -> list[memoryview]:
        taken, self._pending = self._pending, []
        return taken

    def _callbacks(self) -> Any:
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_end": self._on_end,
        }

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise StreamError("The upload has too many parts; send one part named `file`.")
        self._headers = {}
        self._inside_file = False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        is_file = options.get(b"name") == b"file"
        if (is_file or b"filename" in options) and self._seen:
            raise InvalidFileType("Send one file at a time; this upload holds more than one.")
        if b"filename" in options and not is_file:
            raise InvalidFileType("The file must be in the part named `file`.")
        if is_file:
            self._seen = self._inside_file = True
            self.file_name = _unescaped(_decode(options.get(b"filename", b"")))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside_file:
            self._pending.append(memoryview(data)[start:end])
            self.size += end - start

    def _on_end(self) -> None:
        self._ended = True


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # what clients older than the standard send


def _unescaped(file_name: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), file_name)


class Incoming:
    """One upload on its way to disk: written under a hidden name, fsynced, renamed, its directory
    fsynced. All but measuring blocks: run it in a thread, one thing at a time."""

    def __init__(self, directory: IngestDirectory, image_id: ImageId) -> None:
        self._directory = directory
        self.image_id = image_id
        self._hidden = f"{directory.path}/.{image_id}.part"
        self._made: list[str] = []
        self._file: int | None = None
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def measure(self, chunk: memoryview) -> None:
        """As it passes; what is measured is written next. Does not block for long."""
        self._hash.update(chunk)
        self.size += len(chunk)

    def write(self, chunks: Iterable[memoryview]) -> None:
        try:
            if self._file is None:
                self._made.append(self._hidden)
                hit("ingest.open")
                self._file = os.open(
                    self._hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )
            hit("ingest.write")
            write_chunks(self._file, chunks)
        except OSError as error:
            raise storage_error(error) from error

    def read_at(self, at: int, length: int) -> bytes:
        assert self._file is not None  # noqa: S101 - an empty upload never gets this far
        try:
            return os.pread(self._file, length, at)
        except OSError as error:
            raise storage_error(error) from error

    def finish(self, extension: str) -> Path:
        """Makes the file durable and visible under its final name."""
        final = f"{self._directory.path}/{self.image_id}.{extension}"
        assert self._file is not None  # noqa: S101 - an empty upload never gets this far
        try:
            hit("ingest.fsync")
            os.fsync(self._file)
            close_at_once(self._file)
            self._file = None
            hit("ingest.rename")
            os.rename(self._hidden, final)  # noqa: PTH104 - one system call, as documented
            self._made.append(final)
            hit("ingest.fsync_directory")
            self._directory.sync_together()
        except OSError as error:
            raise storage_error(error) from error
        return Path(final)

    @property
    def begun(self) -> bool:
        """Whether there may be anything to discard."""
        return bool(self._made)

    def discard(self) -> None:
        """Leaves nothing, however far it got. The start-up sweep finishes what this cannot."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        for path in self._made:
            hit("ingest.discard")
            Path(path).unlink(missing_ok=True)


def storage_error(error: OSError) -> StorageError:
    return StorageFull() if error.errno in _FULL else StorageError()


class Receiver:
    """Takes one upload in. The caller owns `incoming` and discards it when this raises."""

    def __init__(
        self, incoming: Incoming, limits: UploadLimits, threads: Threads, turns: Turns
    ) -> None:
        self._incoming = incoming
        self._limits = limits
        self._threads = threads
        self._turns = turns
        self._head = bytearray()
        self._header: ImageHeader | None = None
        self._passed: list[memoryview] = []
        self._waiting = 0

    async def receive(
        self, content_type: str, stream: AsyncIterator[bytes], expected_checksum: str | None
    ) -> Received:
        part = FilePart(content_type)
        body = 0
        async for chunk in stream:
            body += len(chunk)
            part.feed(chunk)
            self._check_size(part.size, body)
            self._pass(part.take())
            if self._waiting >= _HOP_BYTES:
                await self._hop(self._store, self._taken())
        part.end()
        path, header = await self._hop(self._finish, self._taken(), expected_checksum)
        return Received(
            path,
            part.file_name or "",
            header,
            self._incoming.checksum,
            self._incoming.size,
        )

    def _pass(self, chunks: list[memoryview]) -> None:
        for chunk in chunks:
            self._incoming.measure(chunk)
            self._waiting += len(chunk)
        self._passed += chunks

    def _taken(self) -> list[memoryview]:
        taken, self._passed, self._waiting = self._passed, [], 0
        return taken

    def _check_size(self, file: int, body: int) -> None:
        """Of the whole body too: what surrounds the file is read as well."""
        most = self._limits.max_bytes
        if file > most or body > most + _MULTIPART_OVERHEAD:
            raise too_large(most)

    async def _hop(self, work: Callable[..., T], *arguments: object) -> T:
        """A cancelled request waits for its thread, so that a discard cannot race a write."""
        mine = await self._turns.take()
        try:
            return await self._threads.run(work, *arguments)
        finally:
            self._turns.give(mine)

    def _store(self, chunks: list[memoryview], *, last: bool = False) -> None:
        if len(self._head) < HEADER_BYTES:
            self._look_early(chunks, last=last)
        self._incoming.write(chunks)

    def _look_early(self, chunks: list[memoryview], *, last: bool) -> None:
        """Most of what will be refused is known from its first bytes: before the rest is sent, or
        anything is written. Mostly the header ends in them, and is not read again."""
        for chunk in chunks:
            if (missing := HEADER_BYTES - len(self._head)) <= 0:
                break
            self._head += chunk[:missing]
        complete = last and len(self._head) == self._incoming.size
        if complete or len(self._head) == HEADER_BYTES:
            with suppress(HeaderTooLong), _refusing():
                self._header = read_header(bytes(self._head), complete=complete)
                _check_limits(self._header, self._limits)

    def _finish(
        self, chunks: list[memoryview], expected_checksum: str | None
    ) -> tuple[Path, ImageHeader]:
        self._store(chunks, last=True)
        with _refusing():
            header = self._header or read_file_header(self._incoming.read_at)
            _check_limits(header, self._limits)
            header.check_density(self._incoming.size)
        if expected_checksum is not None and expected_checksum.lower() != self._incoming.checksum:
            raise ChecksumError
        return self._incoming.finish(header.extension), header


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except HeaderTooLong:
        raise
    except NotAnImage as error:
        raise InvalidFileType(str(error)) from error


def _check_limits(header: ImageHeader, limits: UploadLimits) -> None:
    if header.mime_type not in limits.accepted_types:
        accepted = ", ".join(limits.accepted_types)
        words = f"{header.mime_type} is not accepted here. Export it as one of {accepted}."
        raise InvalidFileType(words)
    if header.pixels > limits.max_pixels:
        size = header.width, header.height
        raise UploadTooLarge(too_many_pixels(limits.max_pixels, size, header.pixels))


def check_declared_length(length: int | None, limits: UploadLimits) -> None:
    """Refuses before the first byte what its Content-Length already condemns."""
    if length is not None and length > limits.max_bytes + _MULTIPART_OVERHEAD:
        raise too_large(limits.max_bytes)


def too_large(max_bytes: int) -> UploadTooLarge:
    return UploadTooLarge(too_many_bytes(max_bytes))
