"""A shard's lock among processes, as long as somebody holds it."""

import fcntl
import os

from safelight.infra.files import close_at_once


class Hold:
    """A shard's lock; let go by `release`, or when forgotten."""

    def __init__(self, path: str, mode: int) -> None:
        self._file: int | None = None
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, mode)

    def release(self) -> None:
        if self._file is not None:
            close_at_once(self._file)
            self._file = None

    __del__ = release
