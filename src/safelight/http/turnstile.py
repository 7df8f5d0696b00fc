"""What comes in on a connection, a step at a time.

The event loop would hand us 256 KiB at once and then go on reading from whoever sends fastest,
while everybody else waits. What is not read yet costs us nothing: it stays with the system, and in
the end with the client. Steps are short while every byte may mean work, and long in a plain body.
"""

import asyncio
from typing import Any, Protocol, cast

SHORT_STEP, LONG_STEP = 16 * 1024, 256 * 1024


class Passing(Protocol):
    step: int

    def connection_made(self, transport: asyncio.Transport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class Turnstile(asyncio.BufferedProtocol):
    def __init__(self, inner: Passing) -> None:
        self._inner = inner

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return _ROOM[: self._inner.step]

    def buffer_updated(self, nbytes: int) -> None:
        # As a view, though it says bytes: parsers copy what they keep, and nobody else sees it.
        self._inner.data_received(cast("bytes", _ROOM[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """What the one before us on this connection had read already."""
        self._inner.data_received(data)

    def connection_made(self, transport: Any) -> None:
        self._inner.connection_made(transport)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)


_ROOM = memoryview(bytearray(LONG_STEP))  # for all: filled and emptied without a pause in between
