"""Notices an event loop that stands still, from a thread that does not depend on it."""

import asyncio
import sys
import threading
import time
import traceback

import structlog

log = structlog.get_logger()


class LoopWatchdog:
    """Shouts when the loop has not turned for `patience` seconds, with the line it stands on, and
    again when it turns on, with how long it took."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._turned = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._over = threading.Event()

    def start(self) -> None:
        """From the loop's own thread."""
        self._turn(asyncio.get_running_loop())
        watched = threading.get_ident()
        threading.Thread(
            target=self._watch, args=(watched,), name="loop-watchdog", daemon=True
        ).start()

    def stop(self) -> None:
        self._over.set()
        if self._handle:
            self._handle.cancel()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turned = time.monotonic()
        self._handle = loop.call_later(self._patience / 4, self._turn, loop)

    def _watch(self, thread: int) -> None:
        blocked_since: float | None = None
        while not self._over.wait(self._patience / 4):
            turned = self._turned
            if blocked_since is not None and turned > blocked_since:
                log.error("loop.unblocked", seconds=round(turned - blocked_since, 1))
                blocked_since = None
            if blocked_since is None and time.monotonic() - turned > self._patience:
                blocked_since = turned
                log.error("loop.blocked", seconds=self._patience, at=_where(thread))


def _where(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the one way to see another stack
    return "".join(traceback.format_stack(frame, limit=6)) if frame else "unknown"
