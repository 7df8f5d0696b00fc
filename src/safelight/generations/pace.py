"""How fast one provider is asked: so many calls at once, so many a minute, and with care while it
asks for patience. Per process; several processes ask that much each.

Who was told to wait waits as long as told. Whether that was about the operator's key or about what
one organization asked for cannot be known, so the others go on, one call at a time: if it goes for
them too, one of them hears of it, and waits as well. What goes well for others lifts nothing for
those who were told. Calls may be long, so one organization's leave one more to another.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from safelight.infra.injected import Clock
from safelight.infra.turns import Turns

LONGEST_PAUSE = 60.0
LOOK_AGAIN = 1.0  # seconds, for who found the one call of the others taken


class Pace:
    def __init__(self, clock: Clock, at_once: int, per_minute: int | None = None) -> None:
        self._clock = clock
        self._turns = Turns(at_once, guests=True)
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._told: dict[str, float] = {}  # organizations, and until when they wait
        self._calling: list[str] = []  # whose calls are open

    @asynccontextmanager
    async def turn(self, organization: str) -> AsyncIterator[float]:
        """Seconds: nothing may be sent for so long. Whoever waits that long does it elsewhere."""
        if pause := self._pause(organization):
            yield pause
            return
        await self._keep_distance()
        async with self._turns.turn():
            if pause := self._pause(organization):  # somebody was told meanwhile
                yield pause
                return
            self._calling.append(organization)
            try:
                yield 0.0
            finally:
                self._calling.remove(organization)

    def slow_down(self, seconds: float, organization: str) -> None:
        """For what has not begun yet; `organization` is the one that was told."""
        until = self._clock.monotonic() + min(seconds, LONGEST_PAUSE)
        self._told[organization] = max(until, self._told.get(organization, 0.0))

    def _pause(self, organization: str) -> float:
        now = self._clock.monotonic()
        self._told = {name: end for name, end in self._told.items() if end > now}
        if organization in self._told:
            return self._told[organization] - now
        others = any(name not in self._told for name in self._calling)
        return LOOK_AGAIN if self._told and others else 0.0

    async def _keep_distance(self) -> None:
        now = self._clock.monotonic()
        start = max(self._next, now)
        self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)
