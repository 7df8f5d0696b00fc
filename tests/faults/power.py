"""Power cuts: a file system of our own, ext4 on a loop device, that is shut down without its log.

with powered(place) as volume:      # skips the test where this machine does not allow it
    …work in volume.where…
    volume.cut()                    # what was not synced is gone; what runs there gets errors
    …end every process that has a file open there…
    volume.restore()
"""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN and its flag
_SIZE = 512 * 1024**2  # sparse: only what is written takes room


class PoweredVolume:
    def __init__(self, place: Path) -> None:
        self._image = place / "volume.img"
        self.where = place / "volume"

    def make(self) -> None:
        self.where.mkdir(mode=0o755)
        with self._image.open("wb") as file:
            file.truncate(_SIZE)
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", self._image)
        self._mount()

    def cut(self) -> None:
        """As pulling the plug: the log is not flushed, and nothing is written from now on."""
        descriptor = os.open(self.where, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        _run("umount", self.where)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", self._image, self.where)
        self.where.chmod(0o755)


@contextmanager
def powered(place: Path) -> Iterator[PoweredVolume]:
    volume = PoweredVolume(place)
    try:
        volume.make()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine does not let us mount a file system: {error}")
    try:
        yield volume
    finally:
        _run("umount", "--lazy", volume.where)
        (place / "volume.img").unlink()


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
