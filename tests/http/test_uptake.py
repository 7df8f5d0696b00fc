"""Clients that do not read what they asked for, and those that only take their time."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
import uvicorn
import uvloop

from safelight.http.door import behind_door
from safelight.infra.metrics import Metrics
from safelight.settings import load
from safelight.testing.waiting import until

REQUEST = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
SOCKET = (
    b"GET / HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
MORE_THAN_THE_SYSTEM_KEEPS = 16 * 1024 * 1024
SHORT, LONG = 0.6, 2.0  # patience with who takes nothing: how long until it ends, and it does not


@asynccontextmanager
async def serving(
    pieces: int, *headers: tuple[bytes, bytes], patience: float = SHORT
) -> AsyncIterator[uvicorn.Server]:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        piece = b"\0" * (MORE_THAN_THE_SYSTEM_KEEPS // pieces)
        for left in reversed(range(pieces)):
            await send({"type": "http.response.body", "body": piece, "more_body": left > 0})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        limits = {"header_seconds": patience / 3, "body_idle_seconds": patience}
        server = uvicorn.Server(behind_door(app, load(limits), Metrics()))
        task = asyncio.create_task(server._serve([listener]))
        await until(lambda: server.started)
        try:
            yield server
        finally:
            server.should_exit = True
            await task


async def dial(server: uvicorn.Server) -> socket.socket:
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    line.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(line, server.servers[0].sockets[0].getsockname())
    await loop.sock_sendall(line, REQUEST)
    return line


pytestmark = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
Loops = Callable[[], asyncio.AbstractEventLoop]


@pytest.mark.parametrize(
    ("pieces", "headers"),
    [(256, ()), (1, ()), (1, ((b"connection", b"close"),))],
    ids=["in the middle", "before the next", "at the end"],
)
def test_who_takes_nothing_is_cut_off(
    loop: Loops, pieces: int, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    async def take_nothing() -> None:
        async with serving(pieces, *headers) as server:
            with closing(await dial(server)):
                await until(lambda: server.server_state.connections)
                await until(lambda: not server.server_state.connections)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(take_nothing())


@pytest.mark.parametrize("pieces", [256, 1])
def test_who_takes_its_time_gets_everything(loop: Loops, pieces: int) -> None:
    """For longer than one may take nothing it takes a little, too little for the system to ask us
    for more."""

    async def take_little(size: int) -> None:
        running = asyncio.get_running_loop()
        headers = (b"content-length", b"%d" % size)
        async with serving(pieces, headers, patience=LONG) as server:
            with closing(await dial(server)) as line:
                got = 0
                for _ in range(30):
                    got += len(await running.sock_recv(line, 8192))
                    await asyncio.sleep(0.1)
                while got < size:
                    got += len(piece := await running.sock_recv(line, 1024 * 1024))
                    assert piece, "cut off"

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(take_little(MORE_THAN_THE_SYSTEM_KEEPS))


def test_who_wants_a_socket_before_it_has_its_answer(loop: Loops) -> None:
    """That answer would be left behind: nobody could tell it that there is room again, nor that its
    client has gone."""

    async def take_nothing_and_ask_for_more() -> None:
        running = asyncio.get_running_loop()
        async with serving(256) as server:
            with closing(await dial(server)) as line:
                doors: Any = server.server_state.connections
                await until(lambda: any(door.flow.write_paused for door in doors))
                await running.sock_sendall(line, SOCKET)
                await until(lambda: all(door.transport.is_closing() for door in doors))
            await until(lambda: not server.server_state.tasks)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(take_nothing_and_ask_for_more())
