"""What stands before the application on every connection: a bound on everything a client can make
us keep or wait for before a route has seen it.

A header, a URL, the fields at the end of a chunked body and requests sent ahead of their answers
are counted while they come. Whoever connects has some seconds to complete a header; a body may take
as long as it likes while bytes come, and so may reading an answer; while it is our turn nobody is
hurried. There are never more connections than we have files for, nor more than a share of them from
one address (a trusted proxy speaks for many and has all). What is refused is told so in the usual
shape and listened to for a moment longer, since closing on a client that still sends shows it a
reset instead of the answer.
"""

import asyncio
import resource
import sys
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from safelight.errors import (
    Crowded,
    HeaderTooLarge,
    MalformedRequest,
    RequestTimeout,
    SafelightError,
    UriTooLong,
)
from safelight.http.cover import Cover
from safelight.http.doorkeeper import Doorkeeper, DoorLimits
from safelight.http.errors import written_out
from safelight.http.speaker import Speaker
from safelight.http.turnstile import LONG_STEP, SHORT_STEP, Turnstile
from safelight.http.uptake import Uptake
from safelight.infra.metrics import Metrics
from safelight.settings import Settings

_LINGER_SECONDS, _LINGER_BYTES = 1.0, 16 * 1024 * 1024
_SENT_AHEAD = 16  # browsers do not, and each costs what a request costs
_SPARE = 32  # connections beyond the limit that are told so; further ones are cut
_CHUNK_BYTES = 16  # of a body, at least, for each chunk: one costs us as much as thousands of bytes
_PLAIN_BYTES = 4096  # of a body in one piece: there are few of those in a long step
_SOCKET_MESSAGE_BYTES = 64 * 1024


class Door(HttpToolsProtocol):
    def __init__(self, keeper: Doorkeeper, **given: Any) -> None:
        super().__init__(**given)
        self._keeper = keeper
        self._limits = keeper.limits
        self.step = SHORT_STEP
        self._unread = 0  # bytes since something was complete: a header, a piece of a body
        self._header_bytes = 0
        self._header_fields = 0
        self._crumbs = 0  # by how many bytes its chunks were too small
        self._since = self.loop.time()  # when we began to wait for what we wait for
        self._timer: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        self._refusal: SafelightError | None = None
        self._over = False
        self._ignored = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._uptake = Uptake(transport, self._since)
        beyond = self._keeper.enter(transport, self.client)
        if beyond > _SPARE:
            self._note("CUT")
            transport.abort()
        elif beyond > 0:
            self._refuse(Crowded())
        else:
            self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.leave(self.transport)
        self._stop_looking()
        self._dismiss()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._stop_looking()
        super().handle_websocket_upgrade()

    # What comes in

    def data_received(self, data: bytes) -> None:
        if self._over:
            self._ignored += len(data)
            if self._ignored > _LINGER_BYTES:
                self.transport.abort()
            return
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self._limits.header_bytes and not self._over:
            self._refuse(HeaderTooLarge())
        if len(data) >= self.step == SHORT_STEP and not self.flow.read_paused:
            # There is more, and it may be much work. Others first.
            self.flow.pause_reading()
            self.loop.call_soon(self.flow.resume_reading)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = self._header_fields = self._crumbs = 0
        self.step = SHORT_STEP

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > self._limits.header_bytes:
            self._reject(UriTooLong())
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_fields += 1
        self._header_bytes += len(name) + len(value) + 4
        if (
            self._header_fields > self._limits.header_fields
            or self._header_bytes > self._limits.header_bytes
        ):
            self._reject(HeaderTooLarge())
        if not self._in_body():  # fields after a body would join a header that was judged already
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _SENT_AHEAD:
            self._reject(MalformedRequest())
        if self.parser.should_upgrade() and self._should_upgrade():
            self._check_upgrade()
        self._progress()
        if any(name == b"x-forwarded-for" for name, _ in self.headers):
            self._keeper.note_proxy(self.client, self.loop.time())
        super().on_headers_complete()

    def _check_upgrade(self) -> None:
        """Behind an answer under way it would take the connection from it. That answer would never
        hear that there is room again, nor that its client has gone, and wait for ever."""
        if has_body(self.headers) or self._request is not None:
            self._reject(MalformedRequest())

    def on_chunk_header(self) -> None:
        self._crumbs += _CHUNK_BYTES
        if self._crumbs > self._limits.header_bytes:
            self._reject(MalformedRequest())

    def on_body(self, body: bytes) -> None:
        self._crumbs = max(self._crumbs - len(body), 0)
        self.step = LONG_STEP if len(body) >= _PLAIN_BYTES else SHORT_STEP
        self._progress()
        waiting: bytes | bytearray = self.cycle.body
        if len(body) >= _PLAIN_BYTES and not waiting and not self.cycle.response_complete:
            self._hand_on(body)
            return
        if isinstance(waiting, bytes):  # what pieces are added to grows in place
            self.cycle.body = bytearray(waiting)
        super().on_body(body)

    def _hand_on(self, body: bytes) -> None:
        """As it is, where uvicorn would copy it twice: a large piece, when nothing waits."""
        self.cycle.body = body  # type: ignore[assignment]
        if len(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._progress()
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        cycle.transport = Cover(self.transport, self.loop)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, forgetting(app))

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()
        if self.pipeline:  # what is sent ahead of these waits outside
            self.flow.pause_reading()

    def resume_writing(self) -> None:
        self._uptake.moved(self.loop.time())
        super().resume_writing()

    def _progress(self) -> None:
        self._unread = 0
        self._since = self.loop.time()

    @property
    def _request(self) -> RequestResponseCycle | None:
        """The last one whose header is complete, until it has its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def _in_body(self) -> bool:
        request = self._request
        return request is not None and request.more_body and request.scope is self.scope

    # What takes too long

    def _look(self) -> None:
        now = self.loop.time()
        if self._uptake.idle(now) >= self._limits.body_idle_seconds:
            self._note("UNREAD")
            self.transport.abort()
        elif self._is_late(now):
            self._give_up()
        else:
            self._look_again()

    def _is_late(self, now: float) -> bool:
        patience = None if self.transport.is_closing() else self._patience()
        if patience is None:
            self._since = now
        return patience is not None and self._since + patience <= now

    def _look_again(self) -> None:
        rounds = min(self._limits.header_seconds, self._limits.body_idle_seconds)
        until = self._since + (self._patience() or rounds)
        wait = min(max(until - self.loop.time(), 0), rounds)
        self._timer = self.loop.call_later(wait, self._look)

    def _patience(self) -> float | None:
        """How long the client may be silent in what it does now. None: it is our turn."""
        request = self._request
        if request is None:
            first = self.cycle is None
            return self._limits.header_seconds + (0 if first else self.timeout_keep_alive)
        waits_for_us = self.flow.read_paused or request.waiting_for_100_continue
        return None if waits_for_us or not self._in_body() else self._limits.body_idle_seconds

    def _give_up(self) -> None:
        if self._unread or self._in_body():
            self._refuse(RequestTimeout())
        else:
            self._hang_up()  # it never began to speak, so there is nothing to answer

    def _hang_up(self) -> None:
        """What was said before still goes out, as long as the client takes it."""
        self.transport.close()
        self._since = self.loop.time()
        self._look_again()

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Saying no

    def _reject(self, error: SafelightError) -> None:
        """From inside the parser, which then calls `send_400_response`."""
        self._refusal = error
        raise error

    def send_400_response(self, msg: str) -> None:
        del msg
        self._refuse(self._refusal or MalformedRequest())

    def _refuse(self, error: SafelightError) -> None:
        self._note(error.code)
        self._over = True
        self._stop_looking()
        may_answer = self._may_answer()
        self._dismiss()
        if not may_answer:
            self._hang_up()
            return
        self.transport.write(written_out(error))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _may_answer(self) -> bool:
        """Not in the middle of another answer, nor in its place."""
        if self.pipeline or self.transport.is_closing():
            return False
        request = self._request
        return request is None or (self._in_body() and not request.response_started)

    def _dismiss(self) -> None:
        """Whoever works on an answer, or waits for more of a body, learns that nobody is there."""
        if (cycle := self._answering) is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _note(self, code: str) -> None:
        self._keeper.note(code, self.client, self.loop.time())


def forgetting(app: Any) -> Any:
    """What belongs to a request goes round in circles and waits for the collector, which counts
    objects and not bytes. So its header, the largest of it, is let go by hand at the end."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        finally:
            scope["headers"].clear()

    return run


def has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    given = dict(headers)
    return b"transfer-encoding" in given or given.get(b"content-length", b"0") != b"0"


def open_more_files() -> None:
    """As many as the system lets us have. Some name a limit that they do not give; then it stays at
    what we have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def files_allowed() -> int:
    """How many this process may have open. Without a limit the system says -1."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else files


def behind_door(app: ASGIApp, settings: Settings, metrics: Metrics) -> uvicorn.Config:
    """How this application is served, wherever it is."""
    limits = DoorLimits.of(settings, files_allowed())
    keeper = Doorkeeper(limits, metrics, settings.trusted_proxies)
    return uvicorn.Config(
        app,
        http=lambda **given: Turnstile(Door(keeper, **given)),  # type: ignore[arg-type]  # only called
        ws=lambda **given: Turnstile(Speaker(keeper, **given)),  # type: ignore[arg-type]
        ws_max_size=_SOCKET_MESSAGE_BYTES,
        ws_ping_interval=20,
        ws_per_message_deflate=False,  # messages are short; a thousand sockets are not
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
    )
