"""A disk with little room, to be filled and emptied: a file system in memory of its own."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import reachable_directory

_CHUNKS = (1024 * 1024, 4096)


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """To the last byte that can be had now; whoever uses the disk may make room again."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in _CHUNKS:
                while _append(ballast.fileno(), size):
                    pass

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    with reachable_directory() as directory:
        path = directory / "disk"
        path.mkdir()
        options = f"size={megabytes}m,mode=0755"
        mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(path)]
        if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
            pytest.skip("only root may mount a file system here")
        try:
            yield SmallDisk(path)
        finally:
            subprocess.run(["umount", "-l", str(path)], check=True)


def _append(file: int, size: int) -> bool:
    try:
        return os.write(file, bytes(size)) > 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
