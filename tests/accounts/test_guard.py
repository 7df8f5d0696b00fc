"""The guards on a small application: credentials, organizations, origins, sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Annotated, Any

import httpx
import pytest
import uvicorn
import websockets
from fastapi import FastAPI, WebSocket
from starlette.requests import Request

from accounts.world import HERE, World, own_api
from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import (
    COOKIE,
    Access,
    allow,
    allow_by_id,
    identify,
    metrics_reader,
    open_to_everyone,
    operator_only,
)
from safelight.infra.turns import whose
from safelight.settings import load
from safelight.testing.waiting import until

THING = "/things/1"  # belongs to acme


@cache
def routes() -> FastAPI:
    api = own_api()

    @api.get("/in/{org}")
    @api.post("/in/{org}")
    async def in_path(
        request: Request, access: Annotated[Access, allow(Role.MEMBER)]
    ) -> dict[str, Any]:
        name = request.state.caller_name
        return {"organization": access.organization, "log": name, "turn": whose.get()}

    @api.get("/own")
    @api.post("/own")
    async def own(access: Annotated[Access, allow(Role.MEMBER)]) -> dict[str, str]:
        return {"organization": access.organization}

    @api.get(THING)
    async def thing(caller: Annotated[Caller, allow_by_id(Role.MEMBER)]) -> dict[str, str]:
        authorize(caller, "acme", Role.MEMBER)
        return {}

    @api.get("/operators", dependencies=[operator_only()])
    @api.get("/numbers", dependencies=[metrics_reader])
    @api.get("/open", dependencies=[open_to_everyone])
    async def nothing() -> dict[str, str]:
        return {}

    @api.websocket("/socket/{org}")
    async def socket(websocket: WebSocket, access: Annotated[Access, allow(Role.VIEWER)]) -> None:
        await websocket.accept()
        await websocket.send_text(access.organization)
        await websocket.receive_text()
        await websocket.send_text(str(await identify(websocket) is not None))
        await websocket.close()

    return api


@pytest.fixture
async def world(world: World) -> World:
    world.behind(routes())
    await world.organization("acme", "globex")
    await world.user("ada", {"acme": Role.ADMIN, "globex": Role.VIEWER})
    await world.user("one", {"acme": Role.MEMBER})
    await world.user("none", {})
    return world


async def code(client: httpx.AsyncClient, path: str, method: str = "GET", **options: Any) -> Any:
    response = await client.request(method, path, **options)
    if response.status_code == 200:
        return response.json().get("organization", 200)
    assert set(response.json()) == {"error", "code"}
    return response.status_code


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer slt_unknown", "bearer x", "Basic YTpi", "slt_x", "Bearer  ", "Bearer a b",
     "Bearer slt_" + "é" * 40, "\x7f"],
)  # fmt: skip
async def test_a_bad_authorization_is_401_whatever_the_cookie(world: World, header: str) -> None:
    cookies = {COOKIE: await world.cookie("ada")}
    async with world.client(cookies=cookies) as client:
        for path in ("/in/acme", "/in/nowhere", "/own", THING, "/operators", "/numbers"):
            given = header.encode("latin-1")
            response = await client.get(path, headers=[(b"authorization", given)])
            assert response.status_code == 401
            assert response.json()["code"] == "UNAUTHENTICATED"
            assert response.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/open", headers=[(b"authorization", given)])).status_code == 200


async def test_the_token_wins_over_the_cookie(world: World) -> None:
    token = await world.token("globex", Role.ADMIN)
    async with world.client(
        headers={"authorization": f"Bearer {token}"}, cookies={COOKIE: await world.cookie("one")}
    ) as client:
        assert await code(client, "/own") == "globex"
        assert await code(client, "/in/acme") == 404
        assert await code(client, "/own", "POST", headers={"origin": "https://evil.example"}) == (
            "globex"
        ), "no cookie was used, so the page does not matter"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_may_be_written_in_any_case(world: World, scheme: str) -> None:
    token = await world.token("acme", Role.MEMBER)
    async with world.client(headers={"authorization": f"{scheme} {token}"}) as client:
        assert await code(client, "/own") == "acme"


async def test_roles_and_organizations_in_the_path(world: World) -> None:
    viewer, member = [await world.token("acme", role) for role in (Role.VIEWER, Role.MEMBER)]
    async with world.client() as client:
        assert await code(client, "/in/acme") == 401
        assert await code(client, "/in/nowhere") == 401
    async with world.program(viewer) as client:
        assert await code(client, "/in/acme") == 403
        assert await code(client, "/in/globex") == 404
        assert await code(client, "/in/nowhere") == 404
        assert await code(client, "/in/%00") == 404
    async with world.program(member) as client:
        answer = (await client.get("/in/acme")).json()
        assert answer == {"organization": "acme", "log": "test", "turn": "acme"}


async def test_a_token_has_its_own_organization(world: World) -> None:
    async with world.program(await world.token("acme", Role.MEMBER)) as client:
        assert await code(client, "/own") == "acme"
        assert await code(client, "/own?organizationId=acme") == "acme"
        assert await code(client, "/own?organizationId=globex") == 404
        assert await code(client, "/own?organizationId=") == 404
        assert await code(client, "/in/acme?organizationId=globex") == "acme"


async def test_a_session_names_its_organization_unless_it_has_one(world: World) -> None:
    async with world.browser(await world.cookie("ada")) as client:
        client.headers["accept"] = "*/*"
        assert await code(client, "/own") == 422
        assert await code(client, "/own", "POST") == 422
        assert await code(client, "/own?organizationId=acme") == "acme"
        assert await code(client, "/own?organizationId=globex") == 403
        assert await code(client, "/own?organizationId=nowhere") == 404
    async with world.browser(await world.cookie("one")) as client:
        client.headers["accept"] = "*/*"
        assert await code(client, "/own") == "acme"
        assert await code(client, "/own", "POST") == "acme"
    async with world.browser(await world.cookie("none")) as client:
        client.headers["accept"] = "*/*"
        assert await code(client, "/own") == 422


async def test_things_are_found_through_membership(world: World) -> None:
    outsider = await world.token("globex", Role.ADMIN, operator=True)
    for token, expected in (
        (await world.token("acme", Role.MEMBER), 200),
        (await world.token("acme", Role.VIEWER), 403),
        (outsider, 404),
    ):
        async with world.program(token) as client:
            assert await code(client, THING) == expected


async def test_operators(world: World) -> None:
    async with world.program(await world.token("acme", Role.ADMIN)) as client:
        assert await code(client, "/operators") == 403
        assert await code(client, "/numbers") == 403
    async with world.program(await world.token("acme", Role.ADMIN, operator=True)) as client:
        assert await code(client, "/operators") == 200
        assert await code(client, "/numbers") == 200
    async with world.client() as client:
        assert await code(client, "/operators") == 401
        assert await code(client, "/numbers") == 401


async def test_open_metrics(world: World) -> None:
    world.registry.add(load({"metrics_open": True}))
    async with world.client() as client:
        assert await code(client, "/numbers") == 200
        assert await code(client, "/operators") == 401


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": HERE}, True),
        ({"origin": "https://images.example.org"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, False),
    ],
)
async def test_a_cookie_changes_things_only_from_our_own_pages(
    world: World, headers: dict[str, str], allowed: bool
) -> None:
    world.registry.add(load({"public_url": "https://images.example.org"}))
    async with world.client(cookies={COOKIE: await world.cookie("one")}, headers=headers) as client:
        assert await code(client, "/in/acme", "POST") == ("acme" if allowed else 403)
        assert await code(client, "/own", "POST") == ("acme" if allowed else 403)
        assert await code(client, "/in/acme") == "acme", "reading is open to links from anywhere"


async def test_an_ended_session_is_nobody(world: World) -> None:
    cookie = await world.cookie("one")
    await world.sign_in.out(cookie)
    async with world.browser(cookie) as client:
        client.headers["accept"] = "*/*"
        assert await code(client, "/in/acme") == 401


@asynccontextmanager
async def served(world: World) -> AsyncIterator[str]:
    """Over a real server: only there a refused socket gets an answer in HTTP."""
    config = uvicorn.Config(world.app, port=0, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    yield f"{host}:{port}"
    server.should_exit = True
    await task


async def refusal(address: str, organization: str, headers: dict[str, str]) -> int:
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        await websockets.connect(
            f"ws://{address}/socket/{organization}", additional_headers=headers
        )
    response = refused.value.response
    assert response.body is not None
    assert b'"code":' in response.body
    return response.status_code


async def test_sockets_are_refused_before_the_upgrade(world: World) -> None:
    token = {"authorization": f"Bearer {await world.token('acme', Role.VIEWER)}"}
    session = {"cookie": f"{COOKIE}={await world.cookie('one')}"}
    async with served(world) as address:
        own = {"origin": f"http://{address}"}
        assert await refusal(address, "acme", {}) == 401
        assert await refusal(address, "acme", {"authorization": "Bearer slt_x"}) == 401
        assert await refusal(address, "globex", token) == 404
        assert await refusal(address, "acme", session) == 403
        assert await refusal(address, "acme", session | {"origin": "https://evil.example"}) == 403
        assert await refusal(address, "globex", session | own) == 404
        for headers in (token, session | own):
            async with websockets.connect(
                f"ws://{address}/socket/acme", additional_headers=headers
            ) as socket:
                assert await socket.recv() == "acme"
                await socket.send("still?")
                assert await socket.recv() == "True"


async def test_a_socket_can_learn_that_its_credential_has_ended(world: World) -> None:
    cookie = await world.cookie("one")
    async with served(world) as address:
        headers = {"cookie": f"{COOKIE}={cookie}", "origin": f"http://{address}"}
        async with websockets.connect(
            f"ws://{address}/socket/acme", additional_headers=headers
        ) as socket:
            await socket.recv()
            await world.sign_in.out(cookie)
            await socket.send("still?")
            assert await socket.recv() == "False"
