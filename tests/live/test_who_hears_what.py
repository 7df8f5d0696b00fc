"""Who hears what, how often, and in which words the others are refused."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from websockets.asyncio.client import connect

from gates.told import told_types
from harness import TOKEN, picture
from inprocess import Application, application
from points import sources
from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.live.messages import FOR_ADMINS, INNER
from safelight.wiring import MESSAGES

OVER = "/api/organizations/default"
FEED = f"{OVER}/activity"


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(
        database_url, tmp_path, max_sockets_per_caller=2, max_sockets_per_organization=3
    ) as app:
        yield app


@pytest.fixture
async def admin(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    async with app.client() as client:
        yield client


async def token_of(admin: httpx.AsyncClient, role: str) -> str:
    answer = await admin.post(f"{OVER}/tokens", json={"name": role, "role": role})
    return str(answer.json()["token"])


async def items(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(FEED, params=query)).json()["items"]
    return found


def live(app: Application, query: str = "", token: str = TOKEN) -> connect:
    url = app.url.replace("http", "ws", 1) + f"{OVER}/live{query}"
    return connect(url, additional_headers={"Authorization": f"Bearer {token}"})


async def refusal(app: Application, query: str = "", token: str = TOKEN) -> tuple[int, str]:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with live(app, query, token):
            pass
    response = refused.value.response
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-request-id"]
    assert response.body
    return response.status_code, json.loads(response.body)["code"]


async def test_what_admins_do_is_for_admins(app: Application, admin: httpx.AsyncClient) -> None:
    async with app.registry.get(Units).open("default") as unit:
        unit.tell(Line("upload:a.jpg", "job_dead", {"jobId": 1}), Line("policy:x", "unheard_of"))
    await admin.post("/api/upload", files={"file": ("a.jpg", picture())})
    async with app.client(await token_of(admin, "viewer")) as viewer:
        seen = {item["type"] for item in await items(viewer, types="*")}
        assert seen >= {"image_uploaded", "upload_ingested"}
        assert not seen & FOR_ADMINS
        assert "unheard_of" not in seen
        assert (await viewer.get(FEED, params={"types": "token_made"})).status_code == 403
    all_of_it = {item["type"] for item in await items(admin, types="*")}
    assert all_of_it >= {"token_made", "job_dead", "unheard_of", "upload_ingested"}
    assert {item["type"] for item in await items(admin, types="token_made")} == {"token_made"}


async def test_an_unknown_type_is_refused(admin: httpx.AsyncClient) -> None:
    for types in ("bogus", "upload_ingested,bogus", "*,bogus", "", ",", "upload-ingested"):
        answer = await admin.get(FEED, params={"types": types})
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST"), types


async def test_inner_items_name_their_subject(admin: httpx.AsyncClient) -> None:
    await admin.post("/api/upload", files={"file": ("a.jpg", picture())})
    for item in await items(admin, types="*"):
        assert set(item["subject"]) == {"type", "id"}
        assert all(item["subject"].values())
    public = await items(admin)
    assert [set(item) for item in public] == [
        {"seq", "type", "at", "imageId", "name", "checksum", "sizeBytes"}
    ]


async def test_a_place_beyond_the_newest_is_told_to_begin_anew(
    app: Application, admin: httpx.AsyncClient
) -> None:
    await admin.post("/api/upload", files={"file": ("a.jpg", picture())})
    newest = (await items(admin, types="*"))[-1]["seq"]
    assert await items(admin, after=newest) == []
    assert await items(admin, after=newest + 1) == [{"type": "reset", "seq": newest}]
    async with live(app, f"?after={newest + 1000}") as socket:
        assert json.loads(await socket.recv()) == {"type": "reset", "seq": newest}
        await admin.post("/api/upload", files={"file": ("b.jpg", picture())})
        assert json.loads(await socket.recv())["name"] == "b.jpg"


@pytest.mark.parametrize("after", ["x", "-1", str(2**63), "9" * 5000, ""])
async def test_a_socket_is_refused_in_words(app: Application, after: str) -> None:
    assert await refusal(app, f"?after={after}") == (422, "INVALID_REQUEST")


async def test_nobody_has_all_the_sockets(app: Application, admin: httpx.AsyncClient) -> None:
    another = await token_of(admin, "viewer")
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(live(app))
        assert await refusal(app) == (429, "RATE_LIMITED")
        await stack.enter_async_context(live(app, token=another))
        assert await refusal(app, token=another) == (429, "RATE_LIMITED")
    async with live(app), live(app):  # whoever leaves makes room
        pass


def test_every_type_that_is_told_is_declared() -> None:
    known = {*MESSAGES.types, *INNER, *FOR_ADMINS}
    assert sorted(told_types(sources()) - known) == []
