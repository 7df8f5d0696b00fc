"""Our sockets speak and do not listen."""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidHandshake, InvalidMessage
from websockets.http11 import Request

from safelight.errors import HeaderTooLarge, MalformedRequest, SafelightError
from safelight.http.doorkeeper import Doorkeeper
from safelight.http.errors import written_out
from safelight.http.turnstile import SHORT_STEP
from safelight.http.uptake import Uptake

_FRAMES, _FRAMES_PER_SECOND = 1000, 20  # at once, and in the long run: each costs what a chunk does


class Speaker(WebSocketsSansIOProtocol):
    """What clients say is dropped, in pieces as it comes. Whoever takes nothing of what we say, or
    says very much, is cut off."""

    def __init__(self, keeper: Doorkeeper, **given: Any) -> None:
        super().__init__(**given)
        self._keeper = keeper
        self.step = SHORT_STEP
        self._frames: float = _FRAMES
        self._heard = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._uptake = Uptake(transport, self.loop.time())
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.leave(self.transport)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and not self.transport.is_closing():
            # The header was complete before we came; what this parser refuses nobody would answer.
            malformed = isinstance(self.conn.handshake_exc, InvalidMessage)
            self._refuse(MalformedRequest() if malformed else HeaderTooLarge())

    def handle_connect(self, event: Request) -> None:
        """What is no way to ask for a socket is refused in our words, not in the library's."""
        try:
            self.conn.process_request(event)
        except InvalidHandshake:
            self._refuse(MalformedRequest())
        else:
            super().handle_connect(event)

    def _refuse(self, error: SafelightError) -> None:
        self._keeper.note(error.code, self.client, self.loop.time())
        self.transport.write(written_out(error))
        self.transport.close()

    def handle_events(self) -> None:
        now = self.loop.time()
        earned = (now - self._heard) * _FRAMES_PER_SECOND
        self._frames = min(self._frames + earned, _FRAMES) - len(self.conn.events)
        self._heard = now
        if self._frames >= 0:
            super().handle_events()
        else:
            self._cut_off("FRAMES")

    def resume_writing(self) -> None:
        self._uptake.moved(self.loop.time())
        super().resume_writing()

    def _look(self) -> None:
        patience = self._keeper.limits.body_idle_seconds
        if self._uptake.idle(self.loop.time()) >= patience:
            self._cut_off("UNREAD")
        else:
            self._timer = self.loop.call_later(patience / 3, self._look)

    def _cut_off(self, code: str) -> None:
        if not self.transport.is_closing():
            self._keeper.note(code, self.client, self.loop.time())
        self.transport.abort()

    def handle_text(self, event: Any) -> None:
        """Dropped."""

    def handle_bytes(self, event: Any) -> None:
        """Dropped."""

    def handle_cont(self, event: Any) -> None:
        """Dropped."""

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # it asks and asks, and does not read the answers
            self._cut_off("UNREAD")
