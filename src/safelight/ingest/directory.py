"""The ingest directory: where an upload's bytes wait until the object store has them.

Guarantees: a file under its final name is whole and on disk (receive.py writes it); its path is a
function of the image's id and type; the directory has a node id, so that only processes that see
these files are given jobs about them. Processes that may write hold its lock shared; whoever gets
it exclusively knows that every hidden file is a leftover.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.infra.failpoints import hit
from safelight.infra.files import sync_directory
from safelight.infra.identity import MARK
from safelight.infra.injected import Ids, ImageId

_OURS = re.compile(r"\.?(img_\d{4}-\d{2}-\d{2}_[0-9a-z]+)\.(?:part|jpg|png|webp|gif|avif)")


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
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.node = _node_id(path, ids)
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(path, error) from error

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


def holds_unmarked(path: Path) -> bool:
    """Whether there are uploads in a directory that does not say whose it is."""
    if not path.is_dir() or (path / MARK).exists():
        return False
    return any(not file.partial for file in files_in(path))


def unusable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The ingest directory {path} cannot be used ({error.strerror}). "
        "Give SAFELIGHT_INGEST_DIR a directory this user can write."
    )


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
