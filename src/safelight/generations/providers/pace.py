"""How fast one provider is asked: so many calls at once, so many a minute, and none for a while
after it asked everybody to slow down. Per process; several processes ask that much each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from safelight.infra.injected import Clock

LONGEST_PAUSE = 60.0


class Pace:
    def __init__(self, clock: Clock, at_once: int, per_minute: int | None = None) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(at_once)
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        async with self._turns:
            now = self._clock.monotonic()
            start = max(self._next, now)
            self._next = start + self._gap
            if start > now:
                await asyncio.sleep(start - now)
            yield

    def slow_down(self, seconds: float) -> None:
        """For whoever has not begun yet."""
        until = self._clock.monotonic() + min(seconds, LONGEST_PAUSE)
        self._next = max(self._next, until)
