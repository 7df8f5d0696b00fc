"""The ingest directory: where an upload's bytes wait until the object store has them.

Guarantees: a file under its final name is whole and on disk (written under a hidden name, fsynced,
renamed, directory fsynced); its path is a function of the image's id and type; the directory has a
node id, so that only processes that see these files are given jobs about them. Processes that may
write hold its lock shared; whoever gets it exclusively knows that every hidden file is a leftover.
"""

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.infra.failpoints import hit
from safelight.infra.files import sync_directory
from safelight.infra.injected import Ids, ImageId
from safelight.ingest.contract import StorageError, StorageFull

_FULL = {errno.ENOSPC, errno.EDQUOT}
_OURS = re.compile(r"\.?(img_\d{4}-\d{2}-\d{2}_[0-9a-z]+)\.(?:part|jpg|png|webp|gif|avif)")


@dataclass(frozen=True, slots=True)
class Found:
    """A file of ours in the directory."""

    path: Path
    image_id: ImageId
    partial: bool
    modified_ms: int


class IngestDirectory:
    def __init__(self, path: Path, ids: Ids) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.node = _node_id(path, ids)
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The ingest directory {path} cannot be used ({error.strerror}). "
                "Give SAFELIGHT_INGEST_DIR a directory this user can write."
            ) from error

    def close(self) -> None:
        os.close(self._lock)

    def lock_exclusive(self) -> bool:
        """True when nobody else is using the directory."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_shared(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def final_path(self, image_id: ImageId, extension: str) -> Path:
        return self.path / f"{image_id}.{extension}"

    def incoming(self, image_id: ImageId) -> "Incoming":
        return Incoming(self, image_id)

    def files(self) -> Iterator[Found]:
        """Only what we could have written; anything else in there is not ours to touch."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                match = _OURS.fullmatch(entry.name)
                if match is None or not entry.is_file(follow_symlinks=False):
                    continue
                try:
                    modified = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                except FileNotFoundError:
                    continue  # finished or swept while we looked
                partial = entry.name.startswith(".")
                yield Found(Path(entry.path), ImageId(match[1]), partial, modified)


class Incoming:
    """One upload on its way to disk. Every method blocks: run them in a thread, one at a time."""

    def __init__(self, directory: IngestDirectory, image_id: ImageId) -> None:
        self._directory = directory
        self._image_id = image_id
        self._hidden = directory.path / f".{image_id}.part"
        self._final: Path | None = None
        self._file: int | None = None
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def write(self, chunks: Iterable[memoryview]) -> None:
        try:
            if self._file is None:
                hit("ingest.open")
                self._file = os.open(
                    self._hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )
            for chunk in chunks:
                self._hash.update(chunk)
                self.size += len(chunk)
                hit("ingest.write")
                _write_all(self._file, chunk)
        except OSError as error:
            raise _storage_error(error) from error

    def finish(self, extension: str) -> Path:
        """Makes the file durable and visible under its final name."""
        final = self._directory.final_path(self._image_id, extension)
        assert self._file is not None  # noqa: S101 - an empty upload never gets this far
        try:
            hit("ingest.fsync")
            os.fsync(self._file)
            os.close(self._file)
            self._file = None
            hit("ingest.rename")
            os.rename(self._hidden, final)  # noqa: PTH104 - one system call, as documented
            self._final = final
            hit("ingest.fsync_directory")
            sync_directory(self._directory.path)
        except OSError as error:
            raise _storage_error(error) from error
        return final

    def discard(self) -> None:
        """Leaves nothing, however far it got. The start-up sweep finishes what this cannot."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        for path in filter(None, (self._hidden, self._final)):
            hit("ingest.discard")
            path.unlink(missing_ok=True)


def _write_all(file: int, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[os.write(file, chunk) :]


def _storage_error(error: OSError) -> StorageError:
    return StorageFull() if error.errno in _FULL else StorageError()


def _node_id(path: Path, ids: Ids) -> str:
    """Made once per directory, also when two processes start at the same moment."""
    file = path / ".node"
    if not file.exists():
        draft = path / f".node.{ids.short('new')}"
        hit("ingest.node_draft")
        draft.write_text(ids.short("node"))
        with suppress(FileExistsError):  # the other process was first, and its id is the node's
            hit("ingest.node_link")
            os.link(draft, file)
        hit("ingest.node_draft_gone")
        draft.unlink()
        hit("ingest.node_sync")
        sync_directory(path)
    return file.read_text().strip()
