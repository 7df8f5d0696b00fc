"""A disk whose blobs cannot be opened, while everything else on it can."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_BLOB = re.compile(r"[0-9a-f]{64}")


@contextmanager
def unreadable_blobs(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
    opened = os.open

    def refuse(path: Any, *how: int) -> int:
        if _BLOB.fullmatch(os.path.basename(path)):  # noqa: PTH119 - text or a path
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *how)

    with monkeypatch.context() as trouble:
        trouble.setattr("safelight.objects.blobs.os.open", refuse)
        yield
