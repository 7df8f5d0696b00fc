"""The frame around every request: id, one log line, metrics, security headers, body limits, and an
answer that reaches the client even when it comes before the body has ended; and how a route gets
what wiring built, by type, so that a signature says what it needs.

Many clients send their whole body before they read. Answering early and closing shows them a reset
instead of the answer, so what is left of the body is read and discarded first, up to a limit in
bytes and time; beyond that the connection is closed and a reset cannot be avoided.
"""

import asyncio
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, TypeVar, cast

import structlog
from fastapi import Depends
from prometheus_client import Counter, Histogram
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from safelight.errors import FileTooLarge
from safelight.http.redact import redact
from safelight.infra.db import Database, be_brief, be_patient
from safelight.infra.injected import Clock, Ids
from safelight.infra.metrics import Metrics
from safelight.infra.queue.queue import Queue
from safelight.infra.reading import FreshReads
from safelight.settings import Settings

T = TypeVar("T")
log = structlog.get_logger()

DRAIN_BYTES = 64 * 1024 * 1024
DRAIN_SECONDS = 10.0
STOPPING_SECONDS = 1.0  # the same for a request that was cancelled: the server is about to end
JSON_BODY_BYTES = 1024 * 1024
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_QUIET_ROUTES = frozenset({"/healthz", "/readyz", "/metrics", "/static/{version}/{path:path}"})

READING = frozenset({"GET", "HEAD", "OPTIONS"})
READING_SECONDS = 4.0

Headers = tuple[tuple[bytes, bytes], ...]
_HTTPS_ONLY = (b"strict-transport-security", b"max-age=31536000")
SECURITY_HEADERS: Headers = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
            b"media-src 'self'; font-src 'self'; connect-src 'self'; worker-src 'self'; "
            b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Registry:
    def __init__(self, *things: object) -> None:
        self._things: dict[type, object] = {}
        for thing in things:
            self.add(thing)

    def add(self, thing: object, *, as_type: type | None = None) -> None:
        self._things[as_type or type(thing)] = thing

    def get(self, kind: type[T]) -> T:
        try:
            return cast("T", self._things[kind])
        except KeyError:
            raise LookupError(f"wiring.py provides no {kind.__name__}") from None


def services(connection: HTTPConnection) -> Registry:
    """They come with each request, so that routes are made once, whoever is served by them."""
    found: Registry = connection.scope["services"]
    return found


def provided(kind: type) -> Any:
    """`ingest: Annotated[Ingest, provided(Ingest)]` in a route's signature."""

    async def find(connection: HTTPConnection) -> Any:
        return services(connection).get(kind)

    return Depends(find)


DatabaseDep = Annotated[Database, provided(Database)]
ReadsDep = Annotated[FreshReads, provided(FreshReads)]  # for what a replica may answer
QueueDep = Annotated[Queue, provided(Queue)]
ClockDep = Annotated[Clock, provided(Clock)]
SettingsDep = Annotated[Settings, provided(Settings)]


class Frame:
    def __init__(
        self, app: ASGIApp, registry: Registry, body_limits: Mapping[str, int | None]
    ) -> None:
        self._app = app
        self._registry = registry
        self._ids = registry.get(Ids)
        self._metrics = registry.get(Metrics)
        self._body_limits = body_limits  # per route; None: the route counts for itself
        self._headers = security_headers(registry.get(Settings).public_url)
        self._counts: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["services"] = self._registry
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                be_brief(READING_SECONDS)
            await self._app(scope, receive, self._answering(scope, send))
            return
        exchange = _Exchange(scope, receive, send, self._body_limits, self._ids, self._headers)
        if scope["method"] in READING:
            be_brief(READING_SECONDS)
        else:
            be_patient()  # else it has the haste of the one it was sent behind, which begins it
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(requestId=exchange.request_id)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:
            # The error handler has answered already; an answer cut half-way has no other witness.
            if exchange.status is None:
                raise
            if exchange.status < 500:  # noqa: PLR2004
                log.warning("answer broke off", error=repr(error))
        finally:
            self._account(scope, exchange)

    def _answering(self, scope: Scope, send: Send) -> Send:
        """A socket that is refused before its upgrade is answered like any request, and as soon;
        once it is open, nobody waits for an answer."""

        async def answer(message: Message) -> None:
            if message["type"] == "websocket.accept":
                be_patient()
            if message["type"] == "websocket.http.response.start":
                request_id = self._ids.short("req")
                message["headers"] = [
                    *message.get("headers", []),
                    *own_headers(message, request_id, self._headers),
                ]
                path, status = redact(scope["path"]), message["status"]
                log.info("socket refused", path=path, status=status, requestId=request_id)
            await send(message)

        return answer

    def _account(self, scope: Scope, exchange: "_Exchange") -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        status = exchange.status or 499
        seconds = time.monotonic() - exchange.started
        answered, took = self._counted(scope["method"], route, status)
        answered.inc()
        took.observe(seconds)
        write = log.debug if route in _QUIET_ROUTES else log.info
        write(
            "request",
            method=scope["method"],
            path=redact(scope["path"]),
            query=redact(scope["query_string"].decode("latin-1")) or None,
            status=status,
            durationMs=round(seconds * 1000, 1),
            caller=scope.get("state", {}).get("caller_name"),
        )

    def _counted(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """Found once for each: looking for a metric by its labels takes longer than counting."""
        found = self._counts.get((method, route, status))
        if found is None:
            answered = self._metrics.requests.labels(method, route, status)
            found = answered, self._metrics.request_seconds.labels(route)
            self._counts[method, route, status] = found
        return found


def security_headers(public_url: str | None) -> Headers:
    """Where our address is HTTPS, a browser that came by it comes no other way any more."""
    secure = (public_url or "").startswith("https:")
    return (*SECURITY_HEADERS, _HTTPS_ONLY) if secure else SECURITY_HEADERS


def own_headers(message: Message, request_id: str, security: Headers) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in message.get("headers", [])}
    own = [(b"x-request-id", request_id.encode())]
    own += [header for header in security if header[0] not in present]
    if b"cache-control" not in present:
        own.append((b"cache-control", b"no-store"))
    return own


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        body_limits: Mapping[str, int | None],
        ids: Ids,
        security: Headers,
    ) -> None:
        self._scope = scope
        self._security = security
        self._receive = receive
        self._send = send
        self._body_limits = body_limits
        headers = dict(scope["headers"])
        self._expects_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        self._declared = (
            int(length) if (length := headers.get(b"content-length", b"0")).isdigit() else 0
        )
        self._has_body = self._declared > 0 or b"transfer-encoding" in headers
        self._body_ended = not self._has_body
        self._received = 0
        self.status: int | None = None
        self.started = time.monotonic()
        given = headers.get(b"x-request-id", b"")
        self.request_id = given.decode() if _REQUEST_ID.fullmatch(given) else ids.short("req")

    async def receive(self) -> Message:
        limit = self._limit
        if limit is not None and self._declared > limit:
            raise FileTooLarge
        message = await self._receive()
        self._note(message)
        if limit is not None and self._received > limit:
            raise FileTooLarge
        return message

    @cached_property
    def _limit(self) -> int | None:
        """Nobody reads a body before the router has chosen, so the route is known."""
        route: str = getattr(self._scope.get("route"), "path", None) or self._scope["path"]
        return self._body_limits.get(route, JSON_BODY_BYTES)

    def _note(self, message: Message) -> None:
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._body_ended = not message.get("more_body", False)
        elif message["type"] == "http.disconnect":
            self._body_ended = True

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            close = not self._body_ended
            if close:
                await self._drain()
            message["headers"] = [
                *message.get("headers", []),
                *own_headers(message, self.request_id, self._security),
                *([(b"connection", b"close")] if close else []),
            ]
        await self._send(message)

    async def _drain(self) -> None:
        if self._expects_continue and self._received == 0:
            return  # the client waits for our word before it sends anything
        discarded = 0
        task = asyncio.current_task()
        stopping = task is not None and task.cancelling() > 0
        try:
            async with asyncio.timeout(STOPPING_SECONDS if stopping else DRAIN_SECONDS):
                while not self._body_ended and discarded < DRAIN_BYTES:
                    before = self._received
                    self._note(await self._receive())
                    discarded += self._received - before
        except TimeoutError:
            return
