"""Sign-in links: looking at one does nothing, pressing its button does, once."""

import html

import httpx
import pytest

from accounts.world import PASSWORD, World
from safelight.accounts.access import Role
from safelight.accounts.guard import COOKIE


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("default")
    await world.user("ada", {"default": Role.ADMIN})
    return world


async def link(world: World, name: str = "new") -> str:
    return (await world.members.welcome(name, "default", Role.MEMBER)).link


def code_in(path: str) -> dict[str, str]:
    return {"code": path.removeprefix("/login?code=")}


def text(response: httpx.Response) -> str:
    return html.unescape(response.text)


async def test_looking_at_a_link_does_not_use_it_up(world: World) -> None:
    path = await link(world)
    async with world.browser() as preview:
        for _ in range(3):
            page = await preview.get(path)
            assert page.status_code == 200
            assert "set-cookie" not in page.headers
            assert "Sign in as new" in text(page)
            assert 'method="post" action="/login"' in page.text
            assert (await preview.get("/")).headers["location"] == "/login"
        await preview.head(path)
    async with world.browser() as client:
        assert (await client.post("/login", data=code_in(path))).status_code == 303
        assert "Account of new" in text(await client.get("/account"))


async def test_it_signs_in_once_and_asks_for_a_password(world: World) -> None:
    path = await link(world)
    async with world.browser() as client:
        response = await client.post("/login", data=code_in(path) | {"next": "/account/password"})
        assert (response.status_code, response.headers["location"]) == (303, "/account/password")
        assert "Choose a password" in (await client.get("/account/password")).text
        assert (await client.get(path)).headers["location"] == "/", "this browser is in already"
        response = await client.post("/account/password", data={"password": PASSWORD})
        assert (response.status_code, response.headers["location"]) == (303, "/account")
        assert "Change your password" in (await client.get("/account/password")).text
    async with world.browser() as other:
        for response in (await other.get(path), await other.post("/login", data=code_in(path))):
            assert response.status_code == 401
            assert "ask for a new link" in text(response)
            assert "set-cookie" not in response.headers
    assert await world.cookie("new")


async def test_choosing_a_password_ends_older_links(world: World) -> None:
    older, used = await link(world), await link(world)
    async with world.browser() as client:
        await client.post("/login", data=code_in(used))
        await client.post("/account/password", data={"password": PASSWORD})
    async with world.browser() as thief:
        assert (await thief.get(older)).status_code == 401
        assert (await thief.post("/login", data=code_in(older))).status_code == 401


async def test_a_lost_password_is_replaced(world: World) -> None:
    """By a link from the command line, whose session need not know the present one for a day."""
    path = await link(world, "ada")
    chosen = {"password": "another password"}
    async with world.browser() as client, world.browser(await world.cookie("ada")) as other:
        assert (await other.post("/account/password", data=chosen)).status_code == 401
        led = await client.post("/login", data=code_in(path))
        assert led.headers["location"] == "/account/password?next=/"
        page = (await client.get("/account/password?next=/")).text
        assert "Choose a password" in page
        assert "Keep the one I have" in page
        assert 'name="current"' not in page
        assert (await client.post("/account/password", data=chosen)).status_code == 303
        assert "Change your password" in (await client.get("/account/password")).text
        assert (await client.post("/account/password", data=chosen)).status_code == 401
    assert await world.cookie("ada", "another password")


async def test_a_day_later_the_present_password_is_asked_for(world: World) -> None:
    path = await link(world, "ada")
    async with world.browser() as client:
        await client.post("/login", data=code_in(path))
        world.clock.advance(hours=24)
        assert "Change your password" in (await client.get("/account/password")).text
        refused = await client.post("/account/password", data={"password": "another password"})
        assert refused.status_code == 401


async def test_it_says_whose_session_it_would_end(world: World) -> None:
    path = await link(world)
    async with world.browser(await world.cookie("ada")) as client:
        page = text(await client.get(path))
        assert "Sign in as new" in page
        assert "You are signed in as ada" in page
        assert "Account of ada" in text(await client.get("/account")), "and has ended nothing yet"


async def test_another_site_cannot_press_the_button(world: World) -> None:
    path = await link(world)
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        async with world.client(headers=headers) as client:
            refused = await client.post("/login", data=code_in(path))
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
            assert COOKIE not in client.cookies


async def test_programs_use_a_link_with_json(world: World) -> None:
    path = await link(world)
    async with world.client() as client:
        response = await client.post("/login", json=code_in(path))
        assert (response.status_code, response.json()["name"]) == (200, "new")
        again = await client.post("/login", json=code_in(path))
        assert (again.status_code, again.json()["code"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("code", ["", "x", "%00", "é", "a" * 5000])
async def test_made_up_links_show_the_form(world: World, code: str) -> None:
    async with world.browser() as client:
        response = await client.get(f"/login?code={code}")
        assert response.status_code == 401
        assert "ask for a new link" in text(response)
        assert (await client.post("/login", data={"code": code})).status_code == 401


async def test_the_page_of_a_link_is_sound(world: World) -> None:
    async with world.browser() as client:
        body = (await client.get(await link(world))).text
    assert body.count("<h1") == 1
    assert body.count("<form") == 1
    assert 'autocomplete="current-password"' not in body
