"""Somebody takes another person's username first. The whole story over HTTP: it gets them nothing."""

from typing import Any

import httpx
import pytest

from accounts.world import PASSWORD, World
from safelight.accounts.access import Role


@pytest.fixture
async def world(world: World) -> World:
    """Mallory is an admin of acme, grace of globex."""
    await world.organization("acme", "globex")
    await world.user("mallory", {"acme": Role.ADMIN})
    await world.user("grace", {"globex": Role.ADMIN})
    return world


async def api(world: World, name: str) -> httpx.AsyncClient:
    client = world.browser(await world.cookie(name))
    client.headers["accept"] = "application/json"
    return client


def members(organization: str, name: str = "dora") -> str:
    return f"/api/organizations/{organization}/members/{name}"


def code_of(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 200
    link: str = answer.json()["signInLink"]
    return {"code": link.removeprefix("/login?code=")}


async def take_the_name(world: World) -> None:
    """Mallory makes dora, and comes in as her."""
    async with await api(world, "mallory") as mallory, world.browser() as as_dora:
        made = await mallory.put(members("acme"), json={"role": "viewer"})
        assert (await as_dora.post("/login", data=code_of(made))).status_code == 303
        chosen = await as_dora.post("/account/password", data={"password": PASSWORD})
        assert chosen.status_code == 303


async def organizations(client: httpx.AsyncClient) -> dict[str, str]:
    body = (await client.get("/api/me", headers={"accept": "*/*"})).json()
    return {one["id"]: one["role"] for one in body["organizations"]}


async def test_whoever_took_the_name_first_gains_nothing(world: World) -> None:
    await take_the_name(world)
    async with await api(world, "grace") as grace, world.browser() as real:
        code = code_of(await grace.put(members("globex"), json={"role": "admin"}))
        async with await api(world, "dora") as as_dora:
            assert await organizations(as_dora) == {"acme": "viewer"}
            assert (await as_dora.get("/api/organizations/globex/members")).status_code == 404
            home = await as_dora.get("/", headers={"accept": "text/html"})
            assert "globex" in home.text
            assert code["code"] not in home.text
            for body in ({"code": ""}, {"code": "globex"}, {"code": "x" * 43}):
                assert (await as_dora.post("/login", json=body)).status_code == 401
            refused = await real.post("/login", data=code)
            assert refused.status_code == 401, "the person grace meant cannot be dora either"
            assert 'value="dora"' in refused.text
            assert await organizations(as_dora) == {"acme": "viewer"}
        listed = (await grace.get("/api/organizations/globex/members")).json()["items"]
        assert [member["username"] for member in listed] == ["grace"]


async def test_the_owner_of_the_name_accepts_with_the_link_and_signed_in(world: World) -> None:
    await world.user("dora", {"acme": Role.VIEWER})
    async with await api(world, "grace") as grace:
        code = code_of(await grace.put(members("globex"), json={"role": "approver"}))
    async with world.browser() as dora:
        shown = await dora.get("/login", params=code)
        assert shown.status_code == 200
        assert (await dora.post("/login", data=code)).status_code == 401, "not signed in"
        given = {"username": "dora", "password": PASSWORD, "next": f"/login?code={code['code']}"}
        back = await dora.post("/login", data=given)
        page = await dora.get(back.headers["location"])
        assert "globex" in page.text
        accepted = await dora.post("/login", data=code)
        assert (accepted.status_code, accepted.headers["location"]) == (303, "/")
        assert await organizations(dora) == {"acme": "viewer", "globex": "approver"}


async def test_nor_by_the_command_line(world: World) -> None:
    """The same, where the person at the shell of the server means another dora."""
    await take_the_name(world)
    welcomed = await world.members.welcome("dora", "globex", Role.ADMIN)
    assert welcomed.account
    assert welcomed.account.roles == {"acme": Role.VIEWER}
    code = {"code": welcomed.link.removeprefix("/login?code=")}
    async with await api(world, "dora") as as_dora, world.browser() as real:
        assert await organizations(as_dora) == {"acme": "viewer"}
        refused = await real.post("/login", data=code)
        assert refused.status_code == 401
        assert 'value="dora"' in refused.text
        assert await organizations(as_dora) == {"acme": "viewer"}
        await as_dora.post("/login", json=code)
        assert await organizations(as_dora) == {"acme": "viewer", "globex": "admin"}


async def test_a_revoked_user_is_welcomed_like_a_new_one(world: World) -> None:
    """Nothing opens that account any more, so nobody else has it."""
    await take_the_name(world)
    await world.members.revoke_user("dora")
    welcomed = await world.members.welcome("dora", "globex", Role.ADMIN, operator=True)
    assert welcomed.account is None
    async with world.browser() as real:
        code = {"code": welcomed.link.removeprefix("/login?code=")}
        assert (await real.post("/login", data=code)).status_code == 303
        assert await organizations(real) == {"globex": "admin"}


async def shape(answer: httpx.Response) -> Any:
    """What an answer tells, without what differs from one to the next anyway."""
    body = answer.json()
    link = body.pop("signInLink")
    assert body.pop("username")
    return answer.status_code, body, len(link), link[:12]


async def test_nobody_learns_which_usernames_there_are(world: World) -> None:
    await world.user("taken", {"acme": Role.VIEWER})
    await world.user("revoked", {"acme": Role.VIEWER})
    await world.members.revoke_user("revoked")
    async with await api(world, "grace") as grace:
        told = [
            await shape(await grace.put(members("globex", name), json={"role": "viewer"}))
            for name in ("fresh", "taken", "revoked")
        ]
        assert told[0] == told[1] == told[2]
        listed = (await grace.get("/api/organizations/globex/members")).json()["items"]
        assert [member["username"] for member in listed] == ["grace"]
        pages = []
        async with world.browser() as anybody:
            for name in ("fresh", "taken", "revoked"):
                code = code_of(await grace.put(members("globex", name), json={"role": "viewer"}))
                page = (await anybody.get("/login", params=code)).text
                pages.append(page.replace(code["code"], "CODE").replace(name, "NAME"))
        assert pages[0] == pages[1] == pages[2]
