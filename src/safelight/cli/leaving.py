"""SIGTERM and Ctrl-C, from the first moment of a command to its last: asked to leave, it leaves in
order, whatever it is doing.

An exception out of a signal handler is lost in whatever code happens to run, so the handlers only
take note. The steps of a start look between each other; once there is an event loop, the first
signal cancels what is being opened, and when everything is open whoever serves is told.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvloop

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Leaving:
    def __init__(self) -> None:
        self._number: int | None = None
        self._tell: Callable[[int], object] | None = None
        for number in _SIGNALS:
            signal.signal(number, lambda number, _: self._note(number))

    def check(self) -> None:
        """Leaves, if that was asked for."""
        if self._number is not None:
            raise SystemExit(0 if self._number == signal.SIGTERM else 128 + self._number)

    def check_opening(self) -> None:
        """The same on the event loop: a cancellation can be lost in what is awaited."""
        if self._number is not None:
            raise asyncio.CancelledError

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        uvloop.run(self._until_done(work))
        self.check()

    async def _until_done(self, work: Coroutine[Any, Any, None]) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def cancel(_: int) -> None:
            self._tell = None  # once: closing what was opened is not cut short
            task.cancel()

        self._tell = cancel
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._note, number)
        if self._number is not None:
            cancel(self._number)
        try:
            with suppress(asyncio.CancelledError):
                await task
        finally:
            for number in _SIGNALS:  # from here on, too: what is left is to stop the database
                loop.remove_signal_handler(number)
                signal.signal(number, lambda number, _: self._note(number))

    @contextmanager
    def told_to(self, listener: Callable[[int], object]) -> Iterator[None]:
        """Whoever is open and serves hears of every signal, of one that came before too."""
        self._tell = listener
        if self._number is not None:
            listener(self._number)
        try:
            yield
        finally:
            self._tell = None

    def _note(self, number: int) -> None:
        self._number = self._number or number
        if self._tell is not None:
            self._tell(number)
