"""An answer's head goes out together with the beginning of its body: one packet, and whoever waits
for it is woken once. Where there is no body yet, the head goes when its task takes a pause."""

import asyncio
from typing import Any, Final

_LARGE: Final = 64 * 1024  # more than a packet: not worth a copy


class Cover:
    """Stands before the transport for the one who writes an answer."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head: bytes | None = b""  # None: it has gone

    def write(self, data: bytes) -> None:
        if self._head is None:
            self._transport.write(data)
        elif not self._head:
            self._head = data
            self._loop.call_soon(self._send, b"")
        elif len(data) > _LARGE:
            self._send(b"")
            self._transport.write(data)
        else:
            self._send(data)

    def close(self) -> None:
        self._send(b"")
        self._transport.close()

    def _send(self, more: bytes) -> None:
        head, self._head = self._head, None
        if head and not self._transport.is_closing():
            self._transport.write(head + more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
