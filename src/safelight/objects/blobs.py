"""The files of the built-in store, below their SHA-256 (shelves.py says where).

Guarantees: a file under its name is whole and on disk, and so are the directories above it; a lock
for each shard keeps who puts there apart from who removes (local.py says in which order).

Gap: the locks are the file system's. A volume shared between machines must support flock.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.infra.failpoints import hit
from safelight.infra.files import (
    CHUNK,
    Measured,
    copy,
    make_directory,
    measure,
    measure_durable,
)
from safelight.infra.identity import deed_in
from safelight.infra.injected import Ids
from safelight.infra.lost_found import LostFound
from safelight.objects.holds import Hold
from safelight.objects.shelves import Shelves
from safelight.objects.store import DamagedObject, StoreUnavailable

# Another file system, one without hard links, too many of them, or a file that is not ours to link.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP}


@dataclass(frozen=True, slots=True)
class BlobFile:
    """A file in the store's directory."""

    sha256: str
    size: int
    changed_ms: int


@dataclass(frozen=True, slots=True)
class Staged:
    """A file in its place, and the lock that keeps it there until its row is committed."""

    what: Measured
    hold: Hold
    written: bool


class Blobs:
    """The files. Every method blocks: run them in threads."""

    def __init__(self, root: Path, ids: Ids) -> None:
        self.root = root
        self._ids = ids
        self.drafts = root / "drafts"
        self._locks = f"{root}/locks"
        try:
            for directory in (root, self.drafts, root / "locks"):
                make_directory(directory)
            self._shelves = Shelves(root, ids)
            self._deed = deed_in(root)
            self._inode = _inode(root)
            self.lost = LostFound(root)
        except OSError as error:
            raise unusable(root, error) from error

    def path(self, sha256: str) -> Path:
        return Path(self._shelves.path(sha256))

    def ensure_there(self) -> None:
        """The root is the directory it was, and not the mount point of a volume that went away. A
        volume that came back is known by what it carries."""
        try:
            inode = _inode(self.root)
            if inode == self._inode:
                return
            same = self._deed is not None and deed_in(self.root) == self._deed
        except OSError as error:
            raise StoreUnavailable.because(f"{self.root} is away: {error}") from error
        if not same:
            raise StoreUnavailable.because(
                f"{self.root} is not the directory it was. Is its volume mounted?"
            )
        self._shelves.forget()
        self._inode = inode

    # Putting

    def stage(self, source: Path, what: Measured | None, expected: str | None) -> Staged:
        """Puts a file in its place, measured first if it is not yet, or not what it was."""
        if what is None or source.stat().st_size != what.size:
            what = measure_durable(source)
        what.expect(expected)
        hold = self._hold(what.sha256[:2])
        return Staged(what, hold, self.place(source, what))

    def _hold(self, shard: str) -> Hold:
        try:
            return Hold(f"{self._locks}/{shard}", fcntl.LOCK_SH)
        except FileNotFoundError:
            self.ensure_there()
            raise

    def place(self, source: Path, what: Measured, *, anew: bool = False) -> bool:
        """Under the shard's lock. A file that is there is left alone, unless it is to be written
        anew; true if it was written."""
        final = self._shelves.path(what.sha256)
        linked = not anew and self._link(source, final, what)
        replace = not linked and (anew or not _has_size(final, what.size))
        if replace:
            self._replace(source, final, what)
        self._shelves.sync(what.sha256)
        self.ensure_there()  # what was written is where its row will say
        return linked or replace

    def _link(self, source: Path, final: str, what: Measured) -> bool:
        """Mostly the directory is there, and asking first would be one more call for each file."""
        try:
            return _link(source, final)
        except FileNotFoundError:  # or the source is away, as the second try says then
            self._make_directory(what)
            return _link(source, final)

    def _make_directory(self, what: Measured) -> None:
        """Not below the mount point of a volume that went away."""
        self.ensure_there()
        self._shelves.make(what.sha256)

    def _replace(self, source: Path, final: str, what: Measured) -> None:
        self._make_directory(what)
        draft = self.drafts / self._ids.short("draft")
        if not _link(source, draft):
            copy(source, draft, what)
        hit("objects.rename")
        os.rename(draft, final)  # noqa: PTH104 - one system call, as documented
        hit("objects.drop_draft")
        draft.unlink(missing_ok=True)  # renaming over another name of the same file leaves both

    # Reading

    @contextmanager
    def _reading(self, sha256: str) -> Iterator[None]:
        """Around whatever reads a file. One that is missing is damage; any other trouble is the
        disk's, and says nothing of what lies on it."""
        try:
            yield
        except FileNotFoundError as error:
            self.ensure_there()
            raise DamagedObject from error
        except OSError as error:
            reason = f"{self.path(sha256)} cannot be read: {error.strerror}"
            raise StoreUnavailable.because(reason) from error

    def open(self, sha256: str) -> int:
        with self._reading(sha256):
            return os.open(self._shelves.path(sha256), os.O_RDONLY | os.O_CLOEXEC)

    def expect(self, sha256: str, file: int, size: int) -> None:
        """Raises unless the open file has its size."""
        with self._reading(sha256):
            if os.fstat(file).st_size != size:
                raise DamagedObject

    def piece(self, sha256: str, file: int, start: int) -> bytes:
        with self._reading(sha256):
            return os.pread(file, CHUNK, start)

    def is_whole(self, sha256: str) -> bool:
        """Reads the file and compares it with its name."""
        try:
            with self._reading(sha256):
                return measure(self.path(sha256)).sha256 == sha256
        except DamagedObject:
            return False

    def lacking(self, sizes: Mapping[str, int]) -> set[str]:
        """Those blobs whose files are missing or of another size."""
        try:
            path = self._shelves.path
            found = {name for name, size in sizes.items() if not _has_size(path(name), size)}
        except OSError as error:
            raise StoreUnavailable.because(f"{self.root} cannot be read: {error}") from error
        if found:
            self.ensure_there()
        return found

    # Removing

    def alone(self, shard: str) -> Hold | None:
        """The shard's exclusive lock, unless somebody is putting there."""
        try:
            return Hold(f"{self._locks}/{shard}", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None

    def remove(self, names: Iterable[str]) -> None:
        for sha256 in names:
            hit("objects.unlink")
            self.path(sha256).unlink(missing_ok=True)

    def files(self, shard: str) -> list[BlobFile]:
        """Only what we could have written."""
        found = []
        for path in self._shelves.files(shard):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            found.append(BlobFile(path.name, status.st_size, status.st_ctime_ns // 1_000_000))
        return found


def _inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def unusable(root: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The blob directory {root} cannot be used ({error.strerror}). "
        "Give SAFELIGHT_DATA_DIR a directory this user can write."
    )


def _link(source: Path, target: Path | str) -> bool:
    """False: not this way. The target may have appeared, or the file systems do not allow it."""
    try:
        hit("objects.link")
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _CANNOT_LINK:
            return False
        raise
    return True


def _has_size(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size == size  # noqa: PTH116 - text, as above
    except FileNotFoundError:
        return False
