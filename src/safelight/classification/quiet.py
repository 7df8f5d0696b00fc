"""What can wait lets the others pass: drawing begins only while no run is at work here."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Quiet:
    def __init__(self) -> None:
        self._busy = 0
        self._nobody = asyncio.Event()
        self._nobody.set()

    @contextmanager
    def broken(self) -> Iterator[None]:
        self._busy += 1
        self._nobody.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self._nobody.set()

    async def wait(self) -> None:
        await self._nobody.wait()
