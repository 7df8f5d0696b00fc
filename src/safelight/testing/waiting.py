"""Waiting for something to become true, never for some time to pass.

Best is to be told: a failpoint says when it is passed (`failpoints.observe`), the bus when there is
news (`told_by`). Where nobody tells, `until` looks again and again and fails with what it saw last.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from safelight.infra.bus import Bus

_BETWEEN_LOOKS = 0.01
_PATIENCE = 20.0


class Overdue(AssertionError):
    """It did not become true in time."""


class Signal:
    """Wakes whoever waits for it; many at once are one."""

    def __init__(self) -> None:
        self.details: list[str] = []
        self._event = asyncio.Event()

    def tell(self, detail: str = "") -> None:
        self.details.append(detail)
        self._event.set()

    async def next(self, seconds: float = _PATIENCE) -> None:
        """Returns at once when something was told since the last time."""
        async with asyncio.timeout(seconds):
            await self._event.wait()
        self._event.clear()


@contextmanager
def told_by(bus: Bus, topic: str) -> Iterator[Signal]:
    """What the bus announces under a topic, from now on."""
    news = Signal()
    stop = bus.subscribe(topic, news.tell, resync=news.tell)
    try:
        yield news
    finally:
        stop()


async def until(
    check: Callable[[], Any],
    seconds: float = _PATIENCE,
    *,
    news: Signal | None = None,
    every: float = _BETWEEN_LOOKS,
) -> Any:
    """Returns what `check` (which may be async) gives as soon as it is true. With `news` it looks
    when there are some, and only then."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        left = end - time.monotonic()
        if left <= 0:
            raise Overdue(f"still {answer!r} after {seconds} s")
        if news is None:
            await asyncio.sleep(min(every, left))
        else:
            with suppress(TimeoutError):
                await news.next(left)


def eventually(
    check: Callable[[], Any], seconds: float = _PATIENCE, *, every: float = _BETWEEN_LOOKS
) -> Any:
    """`until` for those who have no event loop."""
    end = time.monotonic() + seconds
    while not (answer := check()):
        if time.monotonic() > end:
            raise Overdue(f"still {answer!r} after {seconds} s")
        time.sleep(every)
    return answer
