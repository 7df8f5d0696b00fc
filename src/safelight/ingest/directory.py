"""The ingest directory: where an upload's bytes wait until the object store has them.

Guarantees: a file under its final name is whole and on disk (receive.py writes it); its path is a
function of the image's id and type; the directory has a node id, so that only processes that see
these files are given jobs about them: never an empty one, and never that of a directory it was
copied from. Processes that may write hold its lock shared; whoever gets it exclusively knows that
every hidden file is a leftover.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.headers.probe import ImageFormat
from safelight.infra.data_directory import write_private
from safelight.infra.failpoints import hit
from safelight.infra.files import SharedSync, make_directory, write_once
from safelight.infra.identity import DEED
from safelight.infra.injected import Ids, ImageId
from safelight.infra.lost_found import LostFound

_NODE, _HOME = ".node", ".home"
_IS_NODE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENDINGS = "|".join(("part", *(kind.extension for kind in ImageFormat)))
_OURS = re.compile(rf"\.?(img_\d{{4}}-\d{{2}}-\d{{2}}_[0-9a-z]+)\.(?:{_ENDINGS})")


@dataclass(frozen=True, slots=True)
class IngestFile:
    """A file of ours in the directory."""

    path: Path
    image_id: ImageId
    partial: bool
    modified_ms: int


class IngestDirectory:
    def __init__(self, path: Path, ids: Ids) -> None:
        self.path = path
        try:
            make_directory(path)
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.node = self._ensure_node(ids)
            self.lost = LostFound(path)
            self._entries = SharedSync(path)
        except OSError as error:
            raise unusable(path, error) from error

    def _ensure_node(self, ids: Ids) -> str:
        try:
            node = _node_id(self.path, ids, alone=self.lock_exclusive())
        except BaseException:
            self.close()
            raise
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        return node

    def close(self) -> None:
        os.close(self._lock)

    def lock_exclusive(self) -> bool:
        """True when nobody else is using the directory."""
        return self._try_lock(fcntl.LOCK_EX)

    def lock_shared(self) -> bool:
        """False while somebody has it exclusively."""
        return self._try_lock(fcntl.LOCK_SH)

    def _try_lock(self, mode: int) -> bool:
        try:
            fcntl.flock(self._lock, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def sync_together(self) -> None:
        """What was renamed in here before is there after a power cut."""
        self._entries.sync_together()

    def is_there(self) -> bool:
        """False when the path leads elsewhere: a volume is not mounted."""
        return node_in(self.path) == self.node

    def put_back(self, name: str) -> bool:
        """A file from lost+found that is asked for after all; false if it is not there."""
        return self.lost.give_back(name, self.path / name)

    def files(self) -> Iterator[IngestFile]:
        yield from files_in(self.path)


def files_in(directory: Path) -> Iterator[IngestFile]:
    """Only what we could have written; anything else in there is not ours to touch."""
    with os.scandir(directory) as entries:
        for entry in entries:
            match = _OURS.fullmatch(entry.name)
            if match is None or not entry.is_file(follow_symlinks=False):
                continue
            try:
                modified = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
            except FileNotFoundError:
                continue  # finished or swept while we looked
            partial = entry.name.startswith(".")
            yield IngestFile(Path(entry.path), ImageId(match[1]), partial, modified)


def holds_ownerless(path: Path) -> bool:
    """Whether there are uploads in a directory that does not say whose it is."""
    if not path.is_dir() or (path / DEED).exists():
        return False
    return any(not file.partial for file in files_in(path))


def unusable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The ingest directory {path} cannot be used ({error.strerror}). "
        "Give SAFELIGHT_INGEST_DIR a directory this user can write."
    )


def _node_id(path: Path, ids: Ids, *, alone: bool) -> str:
    """Made once per directory, also when two processes start at the same moment. A copy of a
    directory is not that node: it is known by its inodes, which no copy keeps. `alone` a new id is
    made for it, and for one that cannot be read; the sweep then adopts the jobs of the files."""
    node = node_in(path)
    if node is None:
        write_once(path / _NODE, ids.short("node"), ids)
    elif alone and not (_IS_NODE.fullmatch(node) and _home_of(path) in {None, _inodes(path)}):
        hit("ingest.renew_node")
        write_private(path / _NODE, ids.short("node"))
    node = node_in(path) or ""
    if not _IS_NODE.fullmatch(node):
        raise ConfigurationError(
            f"{path / _NODE} does not hold the id of the directory. Stop every server and worker "
            "that uses the directory and start one of them: it makes a new id."
        )
    if alone and _home_of(path) != _inodes(path):
        hit("ingest.remember_home")
        write_private(path / _HOME, _inodes(path))
    return node


def node_in(path: Path) -> str | None:
    try:
        return (path / _NODE).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None


def _home_of(path: Path) -> str | None:
    """Where its id was made; None if that was before anybody asked."""
    try:
        return (path / _HOME).read_text()
    except FileNotFoundError:
        return None


def _inodes(path: Path) -> str:
    return f"{path.stat().st_ino} {(path / _NODE).stat().st_ino}"
