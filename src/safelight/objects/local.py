"""The built-in store: content-addressed files, and an index in the database.

A put first makes its bytes safe as a blob nobody refers to, then writes index, event and delivery
job in one transaction. Killed in between, it leaves at most a stray file, which collection sets
aside.

Blobs are files under their SHA-256 (shelves.py says where). Guarantees: a file under its name is
whole and on disk, and so are the directories above it. A blob row whose state is live has its file,
at every moment and after every crash:

- A put holds its shard's lock shared from before it looks at the file until its rows are committed.
- A file is removed only under the shard's exclusive lock, after its row was condemned and that was
  committed; the row goes after the file.
- Before a removal the shard's epoch is raised, and a put's rows are refused when it changed since
  the put looked: so the last statement of a put whose process, and with it its lock, is gone does
  no harm.

Gap: the locks are the file system's. A volume shared between machines must support flock.
"""

import errno
import fcntl
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from safelight.errors import ConfigurationError, Overwritten
from safelight.infra.db import Database
from safelight.infra.failpoints import hit, reach
from safelight.infra.files import (
    CHUNK,
    ByteSource,
    Measured,
    Spool,
    close_at_once,
    copy,
    make_directory,
    measure,
    measure_durable,
)
from safelight.infra.identity import deed_in
from safelight.infra.injected import Clock, Ids
from safelight.infra.lost_found import LostFound
from safelight.objects import repo
from safelight.objects.holds import Hold
from safelight.objects.keys import owner_of, within
from safelight.objects.shelves import Shelves
from safelight.objects.store import (
    Beaten,
    Cleared,
    Content,
    DamagedObject,
    DeleteWrite,
    Facts,
    Landed,
    Listed,
    NoSuchObject,
    ObjectInfo,
    Place,
    PutWrite,
    R,
    Retake,
    Still,
    StoreUnavailable,
    Written,
)

_TAKES = 4
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


class LocalStore:
    telling = False

    def __init__(self, db: Database, blobs: Blobs, clock: Clock, ids: Ids) -> None:
        self._db = db
        self._blobs = blobs
        self._clock = clock
        self._spool = Spool(blobs.drafts, ids)
        self._epochs: dict[str, int] = {}

    async def close(self) -> None:
        self._spool.close()

    async def check(self) -> None:
        self._blobs.ensure_there()
        if not os.access(self._blobs.root, os.W_OK):
            raise StoreUnavailable.because(f"{self._blobs.root} cannot be written.")

    async def put(self, key: str, source: ByteSource, facts: Facts) -> Written:
        async def write(landed: Landed) -> Written:
            return await repo.put(self._db, key, landed, facts, self._clock.now_ms())

        return await self.put_with(key, source, facts, write)

    async def put_with(
        self,
        key: str,
        source: ByteSource,
        facts: Facts,
        write: PutWrite[R],
        beaten: Beaten[R] | None = None,  # noqa: ARG002 - bytes replace others only in `write`
    ) -> R:
        owner_of(key)
        async with self._spool.on_disk(source) as file:
            known = file.measured or facts.seen
            staged = await self._spool.run(self._blobs.stage, file.path, known, facts.sha256)
            try:
                return await self._commit_put(file.path, staged, write)
            finally:
                staged.hold.release()

    async def _commit_put(self, path: Path, staged: Staged, write: PutWrite[R]) -> R:
        """Writes the file again when its row is refused; the hold keeps it there meanwhile."""
        what, written = staged.what, staged.written
        shard = what.sha256[:2]
        for _ in range(_TAKES):
            epoch = self._epochs.get(shard, 0)
            landed = Landed(Place.BLOB, what.sha256, what.size, what.sha256, epoch, written)
            try:
                await reach("objects.record_put")
                return await write(landed)
            except Retake:
                self._epochs[shard] = await repo.epoch(self._db, shard)
                written = await self._spool.run(self._blobs.place, path, what, anew=True)
        raise StoreUnavailable(f"The row of blob {what.sha256} is refused again and again.")

    async def delete(self, key: str) -> Written:
        async def write(cleared: Cleared) -> Written:
            return await repo.delete(self._db, key, cleared, self._clock.now_ms())

        return await self.delete_with(key, write)

    async def delete_with(self, key: str, write: DeleteWrite[R]) -> R:
        owner_of(key)
        await reach("objects.record_delete")
        return await write(Cleared(Place.BLOB))

    async def delete_if(self, key: str, _: Still, write: DeleteWrite[bool]) -> bool:
        return await self.delete_with(key, write)

    async def head(self, key: str) -> ObjectInfo:
        info, _ = await self._find(key)
        return info

    async def get(
        self, key: str, start: int = 0, stop: int | None = None, etag: str | None = None
    ) -> Content:
        info, blob = await self._find(key)
        if etag not in {None, info.etag}:
            raise Overwritten
        first, end = within(info.size, start, stop)
        opening = partial(self.open_blob, blob, info.size)
        return Content(info, first, end, self._chunks(blob, first, end), opening, blob)

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Listed]:
        return await repo.listed(self._db, prefix, after, limit)

    async def _find(self, key: str) -> tuple[ObjectInfo, str]:
        found = await repo.find(self._db, key)
        if found is None or found[1] is None:
            raise NoSuchObject
        return found[0], found[1]

    def open_blob(self, blob: str, size: int) -> int:
        file = self._blobs.open(blob)
        try:
            self._blobs.expect(blob, file, size)
        except BaseException:
            close_at_once(file)
            raise
        return file

    async def _chunks(self, blob: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Opened when first asked: a blob outlives its object by the grace period."""
        file = self._blobs.open(blob)
        try:
            while start < stop:
                chunk = await self._spool.run(self._blobs.piece, blob, file, start)
                if not chunk:
                    raise DamagedObject
                yield chunk[: stop - start]
                start += len(chunk)
        finally:
            close_at_once(file)
