"""A TCP relay between Safelight and PostgreSQL that goes silent: bytes are taken and acknowledged, and
go nowhere. So look a machine that lost power behind a switch, a firewall that forgot a connection,
and a server that stands still."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit, urlunsplit

_SOCKET = ".s.PGSQL.5432"
_PIECE = 65536


class Relay:
    """Forwards, until it is told otherwise. What is silent once stays so; `forward` is for the
    connections to come."""

    def __init__(self, server_socket: str) -> None:
        self._server_socket = server_socket
        self._silent = self._refusing = self._with_it = False
        self._marker: bytes | None = None
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.fell_silent = asyncio.Event()

    def silence(self) -> None:
        """Nothing passes any more, on old connections or new ones."""
        self._silent = True
        for line in self._lines:
            line.silent = True

    def silence_at(self, marker: bytes, *, everything: bool = False) -> None:
        """The connection that next sends this falls silent: the server gets it, and does it; its
        answer never comes. With it `everything` does; otherwise others are forwarded."""
        self._marker, self._with_it = marker, everything

    def forward(self) -> None:
        self._silent = self._refusing = False

    def lead_to(self, url: str) -> None:
        """The name moves: connections to come go to this server, those there are stay."""
        self._server_socket = _socket_of(url)

    def refuse(self) -> None:
        self._refusing = True

    def cut(self) -> None:
        """Ends every connection."""
        for line in list(self._lines):
            line.end()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.close()
            return
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._server_socket)
        except OSError:  # the server is not there: then neither are we
            writer.close()
            return
        line = _Line(writer, up_writer, silent=self._silent)
        self._lines.add(line)
        there = asyncio.create_task(self._there(line, reader, up_writer))
        back = asyncio.create_task(self._back(line, up_reader, writer))
        for task in (there, back):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _there(
        self, line: "_Line", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_PIECE):
                if line.silent:
                    continue
                if self._marker and self._marker in data:
                    self._marker, line.silent = None, True
                    self.fell_silent.set()
                    if self._with_it:
                        self.silence()
                writer.write(data)
                await writer.drain()
        if not line.silent:  # nobody on the other side hears of the end of a silent one
            line.end()

    async def _back(
        self, line: "_Line", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_PIECE):
                if not line.silent:
                    writer.write(data)
                    await writer.drain()
        if not line.silent:
            line.end()

    def close(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()


class _Line:
    def __init__(
        self, client: asyncio.StreamWriter, server: asyncio.StreamWriter, *, silent: bool
    ) -> None:
        self._ends = (client, server)
        self.silent = silent

    def end(self) -> None:
        for end in self._ends:
            end.close()


@asynccontextmanager
async def relay(url: str) -> AsyncIterator[tuple[Relay, str]]:
    """The relay, and the address that goes through it, of a server on a socket in the file system."""
    parts = urlsplit(url)
    made = Relay(_socket_of(url))
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user = parts.netloc.rpartition("@")[0]
    through = urlunsplit((parts.scheme, f"{user}@127.0.0.1:{port}", parts.path, "", ""))
    try:
        yield made, through
    finally:
        server.close()
        made.close()


def _socket_of(url: str) -> str:
    return f"{parse_qs(urlsplit(url).query)['host'][0]}/{_SOCKET}"
