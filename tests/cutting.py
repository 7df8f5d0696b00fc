"""A PostgreSQL connection that breaks at the worst moment: a proxy between the pool and the server."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

SOCKET = ".s.PGSQL.5432"


class CuttingProxy:
    """Forwards everything until a message to the server holds `marker`; then acts once:

    `before`  the statement never reaches the server
    `after`   the server answers, the client never hears it
    """

    def __init__(self, server_socket: str, marker: bytes) -> None:
        self._server_socket = server_socket
        self._marker = marker
        self.mode: str | None = None
        self.refusing = False
        self.refuse_afterwards = False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.close()
            return
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(self._server_socket)
        back = asyncio.create_task(self._copy(upstream_reader, writer))
        try:
            await self._forward(reader, upstream_reader, upstream_writer, back)
        finally:
            back.cancel()
            writer.close()
            upstream_writer.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        upstream_reader: asyncio.StreamReader,
        upstream_writer: asyncio.StreamWriter,
        back: "asyncio.Task[None]",
    ) -> None:
        while data := await reader.read(65536):
            if self.mode and self._marker in data:
                mode, self.mode = self.mode, None
                self.refusing = self.refuse_afterwards
                if mode == "after":
                    back.cancel()
                    with suppress(asyncio.CancelledError):
                        await back
                    upstream_writer.write(data)
                    await upstream_reader.read(65536)  # the server has committed and said so
                return
            upstream_writer.write(data)
            await upstream_writer.drain()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def cutting(url: str, marker: bytes) -> AsyncIterator[tuple[CuttingProxy, str]]:
    """The proxy and the URL that goes through it."""
    parts = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    directory = Path(tempfile.mkdtemp(prefix="cut"))
    proxy = CuttingProxy(f"{query['host']}/{SOCKET}", marker)
    server = await asyncio.start_unix_server(proxy.handle, directory / SOCKET)
    through = urlunsplit(parts._replace(query=urlencode({**query, "host": str(directory)})))
    try:
        yield proxy, through
    finally:
        server.close()
        shutil.rmtree(directory)
