"""Cloudflare Workers AI on loopback, as well-behaved or as badly behaved as it can be.

    with workers_ai() as vendor:
        vendor.next(refusal(429, 3040), drip())   # what the next requests get; then all is well
        ...
        assert vendor.requests[0].headers["authorization"] == "Bearer secret"

Like the vendor it looks at the address, the token and the body before it answers. It runs in
threads of its own, so that tests with and without an event loop, and whole servers, can use it.
"""

import io
import json
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

MODEL = "/@cf/microsoft/resnet-50"
ACCOUNT = "/client/v4/accounts/account/ai/run"
GATEWAY = "/v1/account/gateway/workers-ai"
ANSWER = [
    {"label": "PERSIAN CAT", "score": 0.4071},
    {"label": "PEKINESE", "score": 0.2345},
    {"label": "FEATHER BOA", "score": 0.0912},
    {"label": "POMERANIAN", "score": 0.0871},
    {"label": "JAPANESE SPANIEL", "score": 0.0144},
]


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def image(self) -> bytes:
        """The image, however it was sent."""
        if self.headers.get("content-type") == "application/json":
            return bytes(json.loads(self.body)["image"])
        return self.body


Behaviour = Callable[["_Handler"], None]


@dataclass
class Vendor:
    token: str | None = None
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    instead: Behaviour | None = None  # what everybody gets for as long as it is there
    _next: deque[Behaviour] = field(default_factory=deque)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The account's address, as an operator writes it."""
        return f"{self.origin}/client/v4/accounts/account"

    @property
    def gateway_url(self) -> str:
        return f"{self.origin}{GATEWAY}"

    def next(self, *behaviours: Behaviour) -> None:
        self._next.extend(behaviours)

    def behaviour(self, request: Request) -> Behaviour:
        self.requests.append(request)
        if self._next:
            return self._next.popleft()
        return self.instead or self._judged(request)

    def _judged(self, request: Request) -> Behaviour:
        if request.path not in {ACCOUNT + MODEL, GATEWAY + MODEL}:
            return refusal(404, 7000, "No route for that URI")
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return refusal(401, 10000, "Authentication error")
        try:
            with Image.open(io.BytesIO(request.image)) as image:
                image.load()
        except Exception:  # noqa: BLE001 - whatever is wrong with a body is a 400
            return refusal(400, 5006, "Error: oneOf at '/' not met")
        return result(ANSWER)


def reply(status: int, body: bytes, **headers: str) -> Behaviour:
    def behave(handler: _Handler) -> None:
        handler.send_response(status)
        handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def result(entries: Any, **headers: str) -> Behaviour:
    envelope = {"result": entries, "success": True, "errors": [], "messages": []}
    return reply(200, json.dumps(envelope).encode(), content_type="application/json", **headers)


def refusal(
    status: int, code: int, message: str = "Refused", *, key: str = "errors", **headers: str
) -> Behaviour:
    """The gateway writes `error` where Workers AI writes `errors`."""
    envelope = {"result": None, "success": False, key: [{"code": code, "message": message}]}
    return reply(status, json.dumps(envelope).encode(), **headers)


def cut_off(after: int) -> Behaviour:
    """Promises a whole answer and closes the connection before its end."""

    def behave(handler: _Handler) -> None:
        body = json.dumps({"result": ANSWER, "success": True}).encode()
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:after])

    return behave


def hang_up() -> Behaviour:
    """Resets the connection without a word."""

    def behave(handler: _Handler) -> None:
        handler.connection.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: RST on close

    return behave


def nonsense() -> Behaviour:
    return lambda handler: _write(handler, b"\x15\x03\x01\x00\x02\x02\x16 this is not HTTP\r\n\r\n")


def silence() -> Behaviour:
    """Takes the request and never answers."""
    return lambda handler: _wait(handler, 60)


def drip() -> Behaviour:
    """Answers one byte at a time, for ever: no single read takes long."""

    def behave(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000000")
        handler.end_headers()
        while not handler.vendor.over.is_set():
            _write(handler, b" ")
            _wait(handler, 0.02)

    return behave


def endless() -> Behaviour:
    def behave(handler: _Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not handler.vendor.over.is_set():
            handler.wfile.write(b" " * 65536)

    return behave


def _write(handler: "_Handler", data: bytes) -> None:
    handler.wfile.write(data)
    handler.wfile.flush()


def _wait(handler: "_Handler", seconds: float) -> None:
    handler.vendor.over.wait(seconds)


class _Handler(BaseHTTPRequestHandler):
    vendor: Vendor

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, self.rfile.read(length))
        with suppress(OSError):  # a client that has had enough closes the connection
            self.vendor.behaviour(request)(self)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def workers_ai(token: str | None = None) -> Iterator[Vendor]:
    vendor = Vendor(token)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"vendor": vendor}))
    vendor.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield vendor
    finally:
        vendor.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
