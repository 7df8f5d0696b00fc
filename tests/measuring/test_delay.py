"""The bench's wire to the database: nothing is lost or turned round on it, and it takes its time."""

import asyncio
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
from bench.delay import Wire, through


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"goodbye")
    writer.close()


async def test_bytes_pass_in_order_late_and_to_the_end(tmp_path: Path) -> None:
    sent, each_round = os.urandom(3_000_000), 0.1
    wire = Wire(tmp_path / "echo", each_round)
    loop = asyncio.get_running_loop()
    async with (
        await asyncio.start_unix_server(_echo, tmp_path / "echo"),
        await wire.serve() as listening,
    ):
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = loop.time()
        writer.write(b"first")
        assert await reader.readexactly(5) == b"first"
        assert loop.time() - began >= each_round - 0.001
        writer.write(sent)
        writer.write_eof()
        assert await reader.read(-1) == sent + b"goodbye"
        writer.close()
        await writer.wait_closed()


async def test_a_database_behind_it(database_url: str) -> None:
    (place,) = parse_qs(urlsplit(database_url).query)["host"]
    async with await Wire(Path(place) / ".s.PGSQL.5432", 0.002).serve() as listening:
        port = listening.sockets[0].getsockname()[1]
        connection = await asyncpg.connect(through(database_url, port))
        assert (
            await connection.fetchval("SELECT sum(n) FROM generate_series(1, $1) n", 1000) == 500500
        )
        await connection.close()
