"""The time limit of a run, in a test's hands: it is reached when the test says so, however long the
machine takes to get there."""

import asyncio
from dataclasses import replace

import pytest

from safelight.submissions.process import Process
from submissions.desk import Desk

_SECONDS = 3601.5  # by which a run's limit is told from all others


class HandLimit:
    def __init__(self, desk: Desk, patch: pytest.MonkeyPatch) -> None:
        process = desk.process
        self.process = Process(
            process.runs, process.scan, replace(process.tempo, limit_seconds=_SECONDS)
        )
        self._limits: list[asyncio.Timeout] = []
        self._timeout = asyncio.timeout
        patch.setattr(asyncio, "timeout", self._noted)

    def _noted(self, delay: float | None) -> asyncio.Timeout:
        limit = self._timeout(delay)
        if delay == _SECONDS:
            self._limits.append(limit)
        return limit

    def reach(self) -> None:
        self._limits[-1].reschedule(asyncio.get_running_loop().time())
