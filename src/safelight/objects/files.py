"""Writing files so that they are there after a power cut, and knowing what is in them."""

import hashlib
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from safelight.infra.failpoints import hit
from safelight.objects.store import CHUNK, ChecksumMismatch


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
        self._file: int | None = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )

    def write(self, chunk: bytes | bytearray) -> None:
        assert self._file is not None  # noqa: S101 - nobody writes after the end
        self._hash.update(chunk)
        self._size += len(chunk)
        hit("objects.write")
        _write_all(self._file, memoryview(chunk))

    def finish(self, rest: bytes | bytearray = b"") -> Measured:
        self.write(rest)
        assert self._file is not None  # noqa: S101 - nor ends twice
        hit("objects.fsync_draft")
        os.fsync(self._file)
        self.close()
        return Measured(self._hash.hexdigest(), self._size)

    def discard(self) -> None:
        self.close()
        hit("objects.discard_draft")
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    __del__ = close


def measure(path: Path) -> Measured:
    with path.open("rb", buffering=0) as file:
        return _measure(file)


def measure_durable(path: Path) -> Measured:
    """The file is on disk afterwards, whoever wrote it."""
    with path.open("rb", buffering=0) as file:
        what = _measure(file)
        hit("objects.fsync_source")
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


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _measure(file: FileIO) -> Measured:
    digest = hashlib.file_digest(file, "sha256")
    return Measured(digest.hexdigest(), file.tell())


def _write_all(file: int, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[os.write(file, chunk) :]
