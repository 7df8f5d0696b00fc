"""Invitations as a browser without scripts meets them: the page of the link, and the list at home."""

import html

import httpx
import pytest

from accounts.world import PASSWORD, World
from safelight.accounts.access import Role

DECLINE = "/account/invitations/acme/decline"


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("acme")
    await world.user("ada", {"acme": Role.ADMIN})
    await world.user("dora")
    return world


async def invite(world: World, username: str) -> str:
    """The path of the link."""
    async with world.browser(await world.cookie("ada")) as admin:
        answer = await admin.put(
            f"/api/organizations/acme/members/{username}", json={"role": "member"}
        )
        return str(answer.json()["signInLink"])


def code_in(path: str) -> dict[str, str]:
    return {"code": path.removeprefix("/login?code=")}


def text(response: httpx.Response) -> str:
    return " ".join(html.unescape(response.text).split())


async def test_the_link_says_what_it_invites_to(world: World) -> None:
    path = await invite(world, "new")
    async with world.browser() as client:
        page = text(await client.get(path))
        for words in ("You are invited", "acme", "member", "new", "ada", "Accept"):
            assert words in page
        assert 'value="/app/acme/upload"' in page, "where it leads"
        given = code_in(path) | {"next": "/app/acme/upload"}
        accepted = await client.post("/login", data=given)
        asked = accepted.headers["location"]
        assert (accepted.status_code, asked) == (303, "/account/password?next=/app/acme/upload")
        assert "Choose a password" in text(await client.get(asked))
        home = text(await client.get("/account"))
        assert "Account of new" in home
        assert "<strong>acme</strong>" in home


async def test_somebody_with_an_account_signs_in_and_comes_back(world: World) -> None:
    path = await invite(world, "dora")
    async with world.browser() as client:
        asked = await client.post("/login", data=code_in(path))
        assert asked.status_code == 401
        assert "Sign in as dora to accept the invitation." in text(asked)
        assert f'name="next" value="{path}"' in asked.text
        given = {"username": "dora", "password": PASSWORD, "next": path}
        assert (await client.post("/login", data=given)).headers["location"] == path
        assert "signed in as" not in text(await client.get(path))
        await client.post("/login", data=code_in(path))
        assert (await client.get("/")).headers["location"] == "/app/acme/upload"
        assert "<strong>acme</strong>" in text(await client.get("/account"))
        assert (await client.get(path)).headers["location"] == "/", "it is used up"


async def test_somebody_else_is_told_who_they_are(world: World) -> None:
    path = await invite(world, "dora")
    async with world.browser(await world.cookie("ada")) as client:
        assert "You are signed in as ada" in text(await client.get(path))
        assert (await client.post("/login", data=code_in(path))).status_code == 401
        assert "Account of ada" in text(await client.get("/account"))


async def test_home_lists_them_and_takes_a_no(world: World) -> None:
    path = await invite(world, "dora")
    async with world.browser(await world.cookie("dora")) as client:
        home = await client.get("/")
        assert "You are invited" in text(home)
        assert "You are invited" in text(await client.get("/account"))
        assert f'action="{DECLINE}"' in home.text
        assert code_in(path)["code"] not in home.text, "the list opens nothing"
        listed = (await client.get("/api/me/invitations", headers={"accept": "*/*"})).json()
        assert [(one["organizationId"], one["role"]) for one in listed["items"]] == [
            ("acme", "member")
        ]
        assert (await client.post(DECLINE)).headers["location"] == "/"
        assert "You are invited" not in text(await client.get("/"))
        assert (await client.post(DECLINE)).status_code == 404
        assert (await client.get(path)).headers["location"] == "/"
    async with world.browser() as client:
        assert (await client.post("/login", data=code_in(path))).status_code == 401


async def test_an_admin_lists_and_withdraws_them(world: World) -> None:
    path = await invite(world, "dora")
    where = "/api/organizations/acme/invitations"
    async with world.browser(await world.cookie("ada")) as admin:
        admin.headers["accept"] = "*/*"
        [listed] = (await admin.get(where)).json()["items"]
        assert (listed["username"], listed["madeBy"]) == ("dora", "ada")
        assert path not in str(listed)
        assert (await admin.delete(f"{where}/dora")).status_code == 204
        assert (await admin.delete(f"{where}/dora")).status_code == 404
        assert (await admin.get(where)).json()["items"] == []
    async with world.browser(await world.cookie("dora")) as client:
        assert (await client.post("/login", data=code_in(path))).status_code == 401
