"""Where files go that nobody knows: they are moved, never unlinked at once.

Each directory with images in it has one. A file stays under its name for four weeks from the moment
it was moved, and goes back when somebody turns up who knows it. A handful a time: more than that is
no leftover of a crash but a sign that something else is wrong, and everything stays where it is.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from safelight.infra.failpoints import hit

HANDFUL = 50
KEPT_MS = 28 * 86_400_000
_NAME = "lost+found"


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: Path
    since_ms: int


class LostFound:
    """Every method blocks: run them in threads."""

    def __init__(self, inside: Path) -> None:
        path = inside / _NAME
        # The root of a volume may have one that is the file system's own, and root's.
        theirs = path.exists() and not os.access(path, os.W_OK | os.X_OK)
        self.path = inside / f".{_NAME}" if theirs else path

    def take(self, files: Iterable[Path]) -> int:
        """How many of them were still there. Killed half-way, the rest is found next time."""
        self.path.mkdir(exist_ok=True, mode=0o700)
        return sum(_move(file, self.path / file.name) for file in files)

    def give_back(self, name: str, target: Path) -> bool:
        """False: there is no such file here."""
        return _move(self.path / name, target)

    def files(self) -> Iterator[FoundFile]:
        """Since when each is here: moving a file is the last change of its inode."""
        if not self.path.is_dir():
            return
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    changed = entry.stat(follow_symlinks=False).st_ctime_ns // 1_000_000
                    yield FoundFile(Path(entry.path), changed)

    def forget(self, before_ms: int) -> int:
        """Removes what was moved here before then, and was not asked for since."""
        old = [file.path for file in self.files() if file.since_ms < before_ms]
        for path in old:
            hit("lost_found.forget")
            path.unlink(missing_ok=True)
        return len(old)


def _move(source: Path, target: Path) -> bool:
    """Within one file system, so at every moment it is at one place or at the other."""
    try:
        hit("lost_found.move")
        source.rename(target)
    except FileNotFoundError:
        return False
    return True
