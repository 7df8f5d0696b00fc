"""A small HTTP server on loopback with its hands on the wire: it can be slow, cut off, or lie."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

_REASONS = {200: "OK", 201: "Created", 302: "Found", 404: "Not Found", 429: "Too Many Requests"}


@dataclass
class Exchange:
    """One request, and the means to answer it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def answer(
        self, status: int, body: Any = b"", headers: dict[str, str] | None = None
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.begin(status, {"content-length": str(len(content)), **(headers or {})})
        await self.send(content)

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def send(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    def cut(self) -> None:
        """Ends the connection as a crash would."""
        self.writer.transport.abort()


Handle = Callable[[Exchange], Awaitable[None]]


@dataclass
class Loopback:
    """`seen` is every request that arrived."""

    handle: Handle
    port: int = 0
    scheme: str = "http"
    seen: list[Exchange] = field(default_factory=list)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """As SAFELIGHT_OUTGOING_ALLOW wants it."""
        return f"127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = asyncio.current_task()
        assert mine is not None
        self._open.add(mine)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                exchange = await _read(reader, writer)
                self.seen.append(exchange)
                await self.handle(exchange)
        finally:
            self._open.discard(mine)
            with suppress(Exception):
                writer.close()

    async def close_all(self) -> None:
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=2)


@asynccontextmanager
async def loopback(
    handle: Handle, certificates: ssl.SSLContext | None = None
) -> AsyncIterator[Loopback]:
    server = Loopback(handle, scheme="https" if certificates else "http")
    listening = await asyncio.start_server(server._serve, "127.0.0.1", 0, ssl=certificates)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.close_all()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Exchange(method, target, headers, body, writer)
