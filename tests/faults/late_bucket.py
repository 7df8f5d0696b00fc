"""A bucket that takes its time: a proxy in front of the tests' S3 server which keeps a request to
itself, has its client give up on it, and applies it later, when told to.

    held = late.hold("PUT", "acme/cat.jpg")
    …the client sends it, and is answered 500, or by `late.hold(…, answer=None)` not at all…
    await held.arrived()
    …whatever happens meanwhile…
    await held.apply()
"""

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, dict[str, str], bytes]
_OWN = {"connection", "transfer-encoding", "content-length", "date", "server"}


@dataclass
class Held:
    """Requests of one method and key that the bucket has received and not applied."""

    method: str
    key: str
    answer: int | None
    most: int
    server: str
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    _arrived: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _reply: Answer = (500, {}, b"")

    def takes(self, method: str, path: str, body: bytes) -> bool:
        if len(self.requests) >= self.most:
            return False
        if (method, urlsplit(path).query) == ("POST", "delete"):  # of many, by a list in the body
            return self.method == "DELETE" and f"<Key>{self.key}</Key>".encode() in body
        return (method, unquote(urlsplit(path).path).split("/", 2)[-1]) == (self.method, self.key)

    async def arrived(self) -> None:
        assert await asyncio.to_thread(self._arrived.wait, 20), "no such request came"

    async def apply(self) -> None:
        """What was sent has its effect now; a client that still waits is answered."""

        def late() -> None:
            for request in self.requests:
                self._reply = _forward(self.server, *request)
            self.release()

        await asyncio.to_thread(late)

    def release(self) -> None:
        """A client that still waits is answered, whether or not it was applied."""
        self._released.set()

    def receive(self, *request: Any) -> Answer:
        self.requests.append(request)
        self._arrived.set()
        if self.answer is None:
            self._released.wait(30)
            return self._reply
        return self.answer, {}, b""


class LateBucket:
    def __init__(self, server: str) -> None:
        self.away = False  # everybody is told to come back later
        self._server = server
        late = self
        self._rules: list[Held] = []
        rules = self._rules

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(ConnectionError):
                    super().handle_one_request()

            def _serve(self) -> None:
                headers = dict(self.headers.items())
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                method = str(self.command)
                if late.away:
                    self._reply(503, {}, b"<Error><Code>SlowDown</Code></Error>")
                    return
                for rule in rules:
                    if rule.takes(method, self.path, body):
                        self._reply(*rule.receive(method, self.path, headers, body))
                        return
                self._reply(*_forward(server, method, self.path, headers, body))

            def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in _OWN:
                        self.send_header(name, value)
                length = headers.get("Content-Length", "0") if not body else str(len(body))
                self.send_header("Content-Length", length)
                self.end_headers()
                with suppress(ConnectionError):
                    self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = _serve  # noqa: N815 - as they are called

            def log_message(self, *_: object) -> None:
                """The tests say what they saw."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def hold(self, method: str, key: str, *, answer: int | None = 500, most: int = 99) -> Held:
        """Keeps up to `most` such requests; the client is answered so, or not before `apply`."""
        rule = Held(method, key, answer, most, self._server)
        self._rules.append(rule)
        return rule

    def let_through(self) -> None:
        """From now on; what is held is still held."""
        self._rules.clear()

    def close(self) -> None:
        for rule in self._rules:
            rule.release()
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def late_bucket(server: str) -> Iterator[LateBucket]:
    late = LateBucket(server)
    yield late
    late.close()


def _forward(server: str, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=20)
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()
