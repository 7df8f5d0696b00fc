"""Files that are there after a power cut, and knowing what is in them; and the threads for both."""

import ctypes
import hashlib
import os
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path
from threading import Lock

from safelight.errors import SafelightError
from safelight.infra.failpoints import hit
from safelight.infra.injected import Ids
from safelight.infra.threads import Threads

CHUNK = 1024 * 1024
_THREADS = 8
_AT_ONCE = 64  # pieces; every system takes more
# `os.close` lets the other threads go on meanwhile, and then waits for its turn behind a busy event
# loop. That costs more than closing does, and these have nothing left to write: it cannot block.
_close = ctypes.PyDLL(None).close
# A file must not change any more: an object store may keep the file itself rather than a copy.
ByteSource = Path | AsyncIterable[bytes]


class ChecksumMismatch(SafelightError):
    """The bytes are not those that were announced. Nothing was stored."""

    code = "CHECKSUM_ERROR"


@dataclass(frozen=True, slots=True)
class Measured:
    sha256: str
    size: int

    def expect(self, sha256: str | None) -> None:
        if sha256 is not None and sha256 != self.sha256:
            raise ChecksumMismatch


class Receiving:
    """Bytes on their way into a new file: on disk after `finish`, gone after `discard`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()
        self._size = 0
        self._file: int | None = None  # first, for what closes it when it cannot be made
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, chunk: bytes | bytearray) -> None:
        assert self._file is not None  # noqa: S101 - nobody writes after the end
        self._hash.update(chunk)
        self._size += len(chunk)
        hit("files.write")
        write_all(self._file, memoryview(chunk))

    def finish(self, rest: bytes | bytearray = b"") -> Measured:
        self.write(rest)
        assert self._file is not None  # noqa: S101 - nor ends twice
        hit("files.fsync_draft")
        os.fsync(self._file)
        self.close()
        return Measured(self._hash.hexdigest(), self._size)

    def discard(self) -> None:
        self.close()
        hit("files.discard_draft")
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    __del__ = close


async def joined(chunks: AsyncIterable[bytes]) -> bytes:
    """For what is small enough to be held in memory."""
    return b"".join([chunk async for chunk in chunks])


def measure(path: Path) -> Measured:
    with path.open("rb", buffering=0) as file:
        return _measure(file)


def measure_durable(path: Path) -> Measured:
    """The file is on disk afterwards, whoever wrote it."""
    with path.open("rb", buffering=0) as file:
        what = _measure(file)
        hit("files.fsync_source")
        os.fsync(file.fileno())
    return what


def copy(source: Path, target: Path, what: Measured) -> None:
    """Hashes on the way: what arrives is what was measured, or nothing does."""
    copying = Receiving(target)
    try:
        with source.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK):
                copying.write(chunk)
        copying.finish().expect(what.sha256)
    except BaseException:
        copying.discard()
        raise


def make_directory(path: Path) -> None:
    """With what is above it, and there after a power cut."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True, mode=0o700)
    with suppress(PermissionError):  # one may write there and not look
        hit("files.sync_made")
        sync_directory(path.parent)


def write_once(path: Path, text: str, ids: Ids) -> None:
    """Whole and on disk under its name, or not there; a file that is there already stays, also when
    two processes do this at the same moment."""
    draft = path.with_name(f"{path.name}.{ids.short('new')}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        hit("files.once_write")
        write_all(descriptor, memoryview(text.encode()))
        hit("files.once_fsync")
        os.fsync(descriptor)
        with suppress(FileExistsError):
            hit("files.once_link")
            os.link(draft, path)
    finally:
        os.close(descriptor)
        hit("files.once_drop")
        draft.unlink()
    hit("files.once_sync")
    sync_directory(path.parent)


def sync_directory(path: Path | str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        close_at_once(descriptor)


def close_at_once(descriptor: int) -> None:
    """Of a directory, or of a file that was fsynced or only read."""
    _close(descriptor)


class SharedSync:
    """A directory's fsync, for all threads that want it at the same moment: who asks while one is
    under way waits for the next, and that serves everybody who asked before it began."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._asking, self._syncing = Lock(), Lock()
        self._asked = self._served = 0

    def sync_together(self) -> None:
        with self._asking:
            self._asked += 1
            mine = self._asked
        with self._syncing:
            if self._served < mine:
                these = self._asked  # what they did before they asked is there by now
                sync_directory(self._path)
                self._served = these


def sync_tree(path: Path) -> None:
    """A directory and everything in it."""
    for each in (*path.rglob("*"), path):
        descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _measure(file: FileIO) -> Measured:
    digest = hashlib.file_digest(file, "sha256")
    return Measured(digest.hexdigest(), file.tell())


def write_all(file: int, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[os.write(file, chunk) :]


def write_chunks(file: int, chunks: Iterable[memoryview]) -> None:
    """All of them with as few calls as can be: each makes a thread wait for its turn twice."""
    left = deque(chunks)
    while left:
        written = os.writev(file, list(islice(left, _AT_ONCE)))
        while left and written >= len(left[0]):
            written -= len(left.popleft())
        if written:
            left[0] = left[0][written:]


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A source as a file, measured if it came as a stream."""

    path: Path
    measured: Measured | None = None


class Spool:
    def __init__(self, directory: Path, ids: Ids) -> None:
        self._directory = directory
        self._ids = ids
        self._threads = Threads(_THREADS, "objects")
        self.run = self._threads.run

    def close(self) -> None:
        self._threads.close()

    @asynccontextmanager
    async def on_disk(self, source: ByteSource) -> AsyncIterator[OnDisk]:
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
