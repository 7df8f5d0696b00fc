"""Where the files of blobs lie below their root, and that the way to them outlasts a power cut.

`aa/<sha256>`, aa being the name's first byte: 256 directories, made at once by the first put, so
that the others make none and sync one. Stores that began before version 0.6 have a second level,
`aa/bb/<sha256>`, and keep it, since older servers may be at work beside this one.

Which it is, is told by a hidden file that is there before the directory is anybody's; where that
was lost, by what lies there.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from safelight.infra.failpoints import hit
from safelight.infra.files import make_directory, sync_directory, write_once
from safelight.infra.identity import DEED
from safelight.infra.injected import Ids

_BLOB: Final = re.compile(r"[0-9a-f]{64}")
_MARK: Final = ".shelves"
_WIDE: Final = "wide: blobs lie in aa/, aa being the first byte of their name\n"
SHARDS: Final = tuple(f"{number:02x}" for number in range(256))


class Shelves:
    """Blocks: for threads. Paths are text on the way of every image, where a `Path` costs more than
    the call it is for."""

    def __init__(self, root: Path, ids: Ids) -> None:
        self._root = str(root)
        self._wide = begin(root, ids)
        self._making = Lock()
        self._seen: set[str] = set()

    def directory(self, sha256: str) -> str:
        if self._wide:
            return f"{self._root}/{sha256[:2]}"
        return f"{self._root}/{sha256[:2]}/{sha256[2:4]}"

    def path(self, sha256: str) -> str:
        return f"{self.directory(sha256)}/{sha256}"

    def files(self, shard: str) -> Iterator[Path]:
        """Only what a put could have written."""
        for path in Path(self._root, shard).glob("*" if self._wide else "??/*"):
            if _BLOB.fullmatch(path.name) and self.path(path.name) == str(path):
                yield path

    def make(self, sha256: str) -> None:
        """The directory that a file is to lie in, and that is not there; with all its like."""
        with self._making:
            self._seen.clear()
            shards = SHARDS if self._wide else (sha256[:2], f"{sha256[:2]}/{sha256[2:4]}")
            for shard in shards:
                Path(self._root, shard).mkdir(exist_ok=True, mode=0o700)

    def sync(self, sha256: str) -> None:
        """A file's entry, and, until this process has once seen to it, the directories'."""
        directory = self.directory(sha256)
        hit("objects.fsync_directory")
        sync_directory(directory)
        # The wide ones are made together, and seen to together.
        known, above = (self._root, 1) if self._wide else (directory, 2)
        if known in self._seen:
            return
        for _ in range(above):
            directory = directory.rpartition("/")[0]
            hit("objects.fsync_parent")
            sync_directory(directory)
        self._seen.add(known)

    def forget(self) -> None:
        """The root is another one."""
        self._seen.clear()


def begin(root: Path, ids: Ids) -> bool:
    """Whether a store is wide. One that is nobody's yet, and empty, is from now on."""
    if (root / _MARK).exists():
        return True
    if (evidence := _evidence(root)) is not None:
        return evidence
    if (root / DEED).exists():
        return False
    make_directory(root)
    write_once(root / _MARK, _WIDE, ids)
    return True


def blobs_in(root: Path) -> Iterator[str]:
    """The names of blobs in a directory, whatever else it is."""
    for shard in SHARDS:
        for pattern in ("*", "[0-9a-f][0-9a-f]/*"):
            for path in (root / shard).glob(pattern):
                if _BLOB.fullmatch(path.name):
                    yield path.name


def _evidence(root: Path) -> bool | None:
    """Of the first thing that a put has made; None: there is none."""
    for shard in SHARDS:
        try:
            with os.scandir(root / shard) as found:
                for each in found:
                    if _BLOB.fullmatch(each.name):
                        return True
                    if each.name in SHARDS:
                        return False
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None
