"""Our command line in this process."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import structlog

from safelight.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@contextmanager
def executing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str
) -> Iterator[Run]:
    """Runs commands that begin with these words; gives exit code, output and complaints."""

    def execute(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["safelight", *first, *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield execute
    structlog.reset_defaults()
