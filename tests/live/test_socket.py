"""The live socket and its polling twin, over the wire."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from harness import TOKEN, picture
from inprocess import Application, application
from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.live import routes
from safelight.live.routes import Hub
from safelight.testing.waiting import until

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path) as app:
        yield app


def socket(
    app: Application, query: str = "", organization: str = "default", **headers: str
) -> connect:
    url = app.url.replace("http", "ws", 1) + f"/api/organizations/{organization}/live{query}"
    return connect(url, additional_headers=headers or AUTHORIZED)


async def upload(app: Application, name: str = "a.jpg") -> dict[str, Any]:
    async with app.client() as client:
        answer = await client.post("/api/upload", files={"file": (name, picture())})
    body: dict[str, Any] = answer.json()
    return body


async def receive(connection: ClientConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(await asyncio.wait_for(connection.recv(), 10))
    return message


async def test_an_upload_is_told_at_once(app: Application) -> None:
    async with socket(app) as connection:
        image = await upload(app)
        message = await receive(connection)
    assert set(message) == {"seq", "type", "at", "imageId", "name", "checksum", "sizeBytes"}
    assert (message["type"], message["imageId"]) == ("upload_ingested", image["imageId"])


async def test_resuming_misses_nothing(app: Application) -> None:
    first, second, third = [(await upload(app, f"{n}.jpg"))["imageId"] for n in range(3)]
    async with socket(app, "?after=0") as connection:
        told = [await receive(connection) for _ in range(3)]
    assert [message["imageId"] for message in told] == [first, second, third]
    async with socket(app, f"?after={told[0]['seq']}") as connection:
        assert (await receive(connection))["imageId"] == second


async def test_polling_gives_the_same(app: Application) -> None:
    for number in range(3):
        await upload(app, f"{number}.jpg")
    path = "/api/organizations/default/activity"
    async with app.client() as client:
        everything = (await client.get(path)).json()
        assert everything["nextCursor"] is None
        seqs = [item["seq"] for item in everything["items"]]
        page = (await client.get(path, params={"limit": 2})).json()
        assert page["nextCursor"] == str(seqs[1])
        rest = (await client.get(path, params={"after": page["nextCursor"]})).json()
        assert page["items"] + rest["items"] == everything["items"]
        inner = (await client.get(path, params={"types": "*"})).json()["items"]
        assert {item["type"] for item in inner} > {"upload_ingested"}
        for bad in ({"after": "x"}, {"after": -1}, {"limit": 0}, {"limit": 201}, {"types": ""}):
            assert (await client.get(path, params=bad)).status_code == 422


async def test_a_cut_feed_says_so(app: Application) -> None:
    await upload(app)
    await app.db.execute("INSERT INTO activity_floor VALUES ('default', 100000)")
    cut = {"type": "history_truncated", "seq": 100000}
    path = "/api/organizations/default/activity"
    for after in (0, 1):
        async with app.client() as client:
            assert (await client.get(path, params={"after": after})).json()["items"] == [cut]
        async with socket(app, f"?after={after}") as connection:
            assert await receive(connection) == cut
    async with app.client() as client:
        assert (await client.get(path)).json()["items"] == [], "who has seen nothing misses nothing"


@pytest.mark.parametrize(
    ("organization", "headers", "status"),
    [
        ("default", {"X-Nobody": "1"}, 401),
        ("default", {"Accept": "text/html"}, 401),
        ("default", {"Authorization": "Bearer slt_wrong"}, 401),
        ("other", {}, 404),
    ],
)
async def test_refused_before_the_upgrade(
    app: Application, organization: str, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with socket(app, "", organization, **headers):
            pass
    assert refused.value.response.status_code == status
    assert set(json.loads(refused.value.response.body)) == {"error", "code"}


async def test_an_ended_credential_closes_the_socket(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_CHECK_SECONDS", 0.05)
    async with socket(app) as connection:
        await app.db.execute("UPDATE tokens SET revoked_at = 1")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await receive(connection)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401


async def test_a_client_too_slow_is_let_go(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never reads; the others are told all the same."""
    monkeypatch.setattr(routes, "_SEND_SECONDS", 2.0)  # also for the quick one, on a busy machine
    filler = "x" * 500_000
    async with socket(app) as quick:
        slow = await socket(app)
        slow.transport.pause_reading()
        for number in range(30):
            async with app.registry.get(Units).open("default") as unit:
                unit.tell(Line("x:1", "upload_deleted", {"name": f"{number}{filler}"}))
        for _ in range(30):
            await receive(quick)
        room, _ = app.registry.get(Hub)._rooms["default"]
        await until(lambda: room.visitors <= 1)
        slow.transport.resume_reading()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            while True:
                await receive(slow)
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1013
