"""A file system of our own, so that it can be full and lose its power: ext4 on a loop device."""

import fcntl
import os
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN; what is in memory only is lost
_SIZE = 1_500 * 1024**2
_STEPS = (64 * 1024**2, 1024**2, 4096)


class Volume:
    """`where` is a plain directory on machines that do not let us mount (`mounted` is False)."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self._image = where.with_name(f"{where.name}.img")
        self._ballast = where / "ballast"
        where.mkdir(mode=0o755)
        with self._image.open("wb") as file:
            file.truncate(_SIZE)
        self.mounted = self._make() and self._mount()

    def _make(self) -> bool:
        command = ["mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1", str(self._image)]
        with suppress(OSError):
            return subprocess.run(command, capture_output=True).returncode == 0
        return False

    def _mount(self) -> bool:
        command = ["mount", "-o", "loop", str(self._image), str(self.where)]
        if subprocess.run(command, capture_output=True).returncode:
            return False
        self.where.chmod(0o755)
        return True

    def fill(self) -> None:
        """To the last block."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT, 0o600)
        size = 0
        for step in _STEPS:
            with suppress(OSError):
                while True:
                    os.posix_fallocate(descriptor, size, step)
                    size += step
        os.close(descriptor)

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def cut_the_power(self) -> None:
        """Nothing reaches the disk from now on, and what had not is gone. `restore` brings the
        machine back; by then nobody may be left who has a file open."""
        descriptor = os.open(self.where, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        self.close()
        if not self._mount():
            raise OSError(f"{self._image} cannot be mounted again")

    def close(self) -> None:
        subprocess.run(["umount", str(self.where)], check=True)
