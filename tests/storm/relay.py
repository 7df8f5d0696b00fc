"""Between a process and its PostgreSQL: connections that break, or go silent and never say so."""

import asyncio
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

SOCKET = ".s.PGSQL.5432"


class Relay:
    """Forwards in both directions. `silence` strikes connections that are open now, for good: both
    sides keep them, and nothing passes any more."""

    def __init__(self, url: str, directory: Path) -> None:
        parts = urlsplit(url)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self._server = f"{query['host']}/{SOCKET}"
        self._directory = directory
        self._open: dict[asyncio.Event, list[asyncio.StreamWriter]] = {}
        self.url = urlunsplit(parts._replace(query=urlencode({**query, "host": str(directory)})))

    async def start(self) -> None:
        self._directory.mkdir()
        await asyncio.start_unix_server(self._serve, self._directory / SOCKET)

    def silence(self) -> int:
        for talking in self._open:
            talking.clear()
        return len(self._open)

    def cut(self) -> int:
        for writers in self._open.values():
            for writer in writers:
                writer.transport.abort()
        return len(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking = asyncio.Event()
        talking.set()
        with suppress(OSError, asyncio.CancelledError):
            behind, ahead = await asyncio.open_unix_connection(self._server)
            self._open[talking] = [writer, ahead]
            ways = [(reader, ahead), (behind, writer)]
            copies = [asyncio.create_task(_copy(*way, talking)) for way in ways]
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            for copy in copies:
                copy.cancel()
            ahead.close()
        writer.close()
        self._open.pop(talking, None)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, talking: asyncio.Event
) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            if not talking.is_set():
                return await asyncio.Event().wait()  # nor does the end of one reach the other
            writer.write(data)
            await writer.drain()
    if not talking.is_set():
        await asyncio.Event().wait()
