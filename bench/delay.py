"""A wire between a server and its PostgreSQL that takes its time: every round trip is longer by so
many milliseconds, half of them each way, and any amount of bytes may be on their way meanwhile.

It listens on a port of the loopback and speaks to PostgreSQL's socket, in a process of its own.
"""

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_CHUNK = 256 * 1024


class Wire:
    def __init__(self, socket: Path, seconds: float) -> None:
        self._socket = socket
        self._each_way = seconds / 2

    async def serve(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_CHUNK)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(self._socket), limit=_CHUNK)
        try:
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        finally:
            for each in (back, writer):
                each.close()
                with suppress(OSError):
                    await each.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each piece leaves when it has been here for long enough, in the order it came, and so
        does the end."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        passing = asyncio.create_task(_pass_on(waiting, writer))
        loop, data = asyncio.get_running_loop(), b" "
        while data:
            try:
                data = await reader.read(_CHUNK)
            except OSError:
                data = b""
            waiting.put_nowait((loop.time() + self._each_way, data))
        await passing


async def _pass_on(
    waiting: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter
) -> None:
    loop, data = asyncio.get_running_loop(), b" "
    with suppress(OSError):  # whoever it is for has gone
        while data:
            due, data = await waiting.get()
            if (rest := due - loop.time()) > 0:
                await asyncio.sleep(rest)
            if data:
                writer.write(data)
                await writer.drain()
        writer.write_eof()


@contextmanager
def delayed(url: str, socket: Path, milliseconds: float) -> Iterator[str]:
    """The same database's address through a wire; with 0 ms it is a wire all the same, so that what
    is compared differs in nothing but the delay."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(theirs, socket, milliseconds / 1000), daemon=True
    )
    process.start()
    theirs.close()
    try:
        yield through(url, ours.recv())
    finally:
        process.terminate()
        process.join()


def through(url: str, port: int) -> str:
    parts = urlsplit(url)
    who = parts.netloc.rpartition("@")[0]
    where = f"{who}@127.0.0.1:{port}"
    return urlunsplit((parts.scheme, where, parts.path, "sslmode=disable", ""))


def _run(pipe: Connection, socket: Path, seconds: float) -> None:
    async def main() -> None:
        server = await Wire(socket, seconds).serve()
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    import uvloop

    uvloop.run(main())
