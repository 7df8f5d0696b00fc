"""A database that stands still: readers are told soon, writers when it is certain."""

import asyncio
import socket
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from faults.relay import relay
from harness import TOKEN
from inprocess import Application, application
from safelight.http import frame
from safelight.http.door import behind_door
from safelight.http.frame import READING_SECONDS, Frame, Registry
from safelight.infra.connecting import LIMITS
from safelight.infra.db import seconds_left
from safelight.infra.injected import Ids, RandomIds
from safelight.infra.metrics import Metrics
from safelight.settings import load
from safelight.testing.waiting import until

OVER = "/api/organizations/default"
READS = (f"{OVER}/uploads", f"{OVER}/activity", "/api/v1/submissions", "/readyz")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers wait for so much less than writers that a busy machine does not even it out."""
    monkeypatch.setattr(frame, "READING_SECONDS", 1.0)


@pytest.mark.usefixtures("quick")
async def test_readers_are_told_before_writers(database_url: str, tmp_path: Path) -> None:
    """With every connection silent, and again when new ones cannot be made either."""
    async with (
        relay(database_url) as (between, through),
        application(through, tmp_path) as app,
        app.client() as client,
    ):
        assert (await client.get(READS[0])).status_code == 200
        between.silence()
        writer = asyncio.create_task(
            client.post(f"{OVER}/approvals", json={"title": "t", "description": "d"})
        )
        for _ in range(2):
            answers = await asyncio.gather(*(client.get(path) for path in READS))
            assert [answer.status_code for answer in answers] == [503] * len(READS)
            assert answers[0].json()["code"] == "UNAVAILABLE"
            assert "nothing was changed" in answers[0].json()["error"]
        assert not writer.done()  # its limit is longer, since its end would be in doubt
        between.forward()
        between.cut()
        assert (await writer).status_code == 503
        assert (await client.get(READS[0])).status_code == 200


async def upgraded(app: Application) -> int:
    """The status with which a socket is refused."""
    url = app.url.replace("http", "ws", 1) + f"{OVER}/live"
    with pytest.raises(InvalidStatus) as refusal:
        async with connect(
            url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, open_timeout=60
        ):
            pass
    return refusal.value.response.status_code


@pytest.mark.usefixtures("quick")
async def test_who_wants_a_socket_is_told_before_writers(database_url: str, tmp_path: Path) -> None:
    async with (
        relay(database_url) as (between, through),
        application(through, tmp_path) as app,
        app.client() as client,
    ):
        assert (await client.get(READS[0])).status_code == 200
        between.silence()
        writer = asyncio.create_task(
            client.post(f"{OVER}/approvals", json={"title": "t", "description": "d"})
        )
        assert await upgraded(app) == 503
        assert not writer.done()
        between.forward()
        between.cut()
        await writer


async def test_an_open_socket_has_all_the_time_its_statements_need() -> None:
    left: list[float] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        left.append(seconds_left(LIMITS.command))
        await send({"type": "websocket.accept"})
        left.append(seconds_left(LIMITS.command))

    async def send(_: Message) -> None:
        return None

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    await framed(app)({"type": "websocket", "path": "/", "headers": []}, receive, send)
    assert left[0] <= READING_SECONDS
    assert left[1] == LIMITS.command


async def test_a_write_sent_behind_a_read_has_all_the_time_it_needs() -> None:
    """Its task is begun by the one before it, and with all that was set there."""
    left: dict[str, float] = {}

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        left[scope["method"]] = seconds_left(LIMITS.command)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(behind_door(framed(app), load(), Metrics()))
        serving = asyncio.create_task(server._serve([listener]))
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(
            b"".join(b"%b / HTTP/1.1\r\nhost: here\r\n\r\n" % m for m in (b"GET", b"POST"))
        )
        await until(lambda: len(left) == 2)
        writer.close()
        server.should_exit = True
        await serving
    assert left["GET"] <= READING_SECONDS
    assert left["POST"] == LIMITS.command


def framed(app: ASGIApp) -> Frame:
    registry = Registry(load(), Metrics())
    registry.add(RandomIds(), as_type=Ids)
    return Frame(app, registry, {})


def test_a_reader_waits_for_less_than_any_statement_may_take() -> None:
    assert READING_SECONDS + 1 <= 5 < LIMITS.command
