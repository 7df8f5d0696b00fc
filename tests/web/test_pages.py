"""The pages as a browser without scripts meets them."""

import html
import re
from typing import Annotated

import httpx
import pytest

from accounts.world import PASSWORD, World, own_api
from safelight.accounts.access import Role
from safelight.accounts.guard import COOKIE, Access, allow
from safelight.settings import load


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("default", "acme")
    await world.user("ada", {"default": Role.ADMIN, "acme": Role.VIEWER}, operator=True)
    await world.user("vera", {"acme": Role.VIEWER})
    await world.user("new", {"default": Role.MEMBER}, password=None)
    return world


def text(response: httpx.Response) -> str:
    return html.unescape(response.text)


def set_cookies(response: httpx.Response) -> str:
    return str(response.headers.get("set-cookie", ""))


async def test_signed_out_leads_to_the_form_and_back(world: World) -> None:
    async with world.browser() as client:
        response = await client.get("/account/password?x=1&y=ä")
        assert response.status_code == 303
        form = await client.get(response.headers["location"])
        assert form.status_code == 200
        assert 'name="next" value="/account/password?x=1&amp;y=%C3%A4"' in form.text
        assert (await client.get("/")).headers["location"] == "/login"


async def test_a_form_sends_the_browser_in(world: World) -> None:
    async with world.browser() as client:
        given = {"username": " Ada ", "password": PASSWORD, "next": "/account/password"}
        response = await client.post("/login", data=given)
        assert (response.status_code, response.headers["location"]) == (303, "/account/password")
        cookie = set_cookies(response)
        for part in ("HttpOnly", "SameSite=lax", "Max-Age=2592000", "Path=/"):
            assert part in cookie
        assert "Secure" not in cookie
        page = await client.get("/account")
        assert page.status_code == 200
        assert "Account of ada" in text(page)
        assert f"{COOKIE}={client.cookies[COOKIE]}" in set_cookies(page), "slides with every page"


async def test_the_cookie_is_secure_where_the_address_is(world: World) -> None:
    world.registry.add(load({"public_url": "https://images.example.org"}))
    async with world.browser() as client:
        response = await client.post("/login", data={"username": "ada", "password": PASSWORD})
        assert "Secure" in set_cookies(response)


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example"])
async def test_nobody_is_sent_elsewhere(world: World, target: str) -> None:
    async with world.browser() as client:
        given = {"username": "ada", "password": PASSWORD, "next": target}
        assert (await client.post("/login", data=given)).headers["location"] == "/"
        assert 'value="/"' in (await client.get("/login", params={"next": target})).text


async def test_a_wrong_password_shows_the_form_again(world: World) -> None:
    async with world.browser() as client:
        given = {"username": 'ada"><script>', "password": "wrong"}
        response = await client.post("/login", data=given)
        assert response.status_code == 401
        assert "The username or the password is wrong." in response.text
        assert 'role="alert"' in response.text
        assert "<script>" not in response.text
        assert not set_cookies(response)
        assert 'wrong"' not in response.text, "the password does not come back"


async def test_too_many_failures_say_how_long_to_wait(world: World) -> None:
    async with world.browser() as client:
        for _ in range(10):
            await client.post("/login", data={"username": "ada", "password": "wrong"})
        response = await client.post("/login", data={"username": "ada", "password": PASSWORD})
        assert (response.status_code, response.headers["retry-after"]) == (429, "900")
        assert "Wait 15 minutes" in response.text
        as_json = {"username": "ada", "password": PASSWORD}
        response = await client.post("/login", json=as_json, headers={"accept": "*/*"})
        assert (response.status_code, response.json()["code"]) == (429, "RATE_LIMITED")
        assert response.headers["retry-after"] == "900"


async def test_programs_sign_in_with_json(world: World) -> None:
    async with world.client() as client:
        response = await client.post("/login", json={"username": "ada", "password": PASSWORD})
        assert response.status_code == 200
        assert response.json()["name"] == "ada"
        assert (await client.get("/api/me")).json()["name"] == "ada"
        wrong = await client.post("/login", json={"username": "ada", "password": "wrong"})
        assert (wrong.status_code, wrong.json()["code"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("content", "kind", "expected"),
    [
        (b"{", "application/json", (400, "INVALID_JSON")),
        (b"{}", "application/json", (422, "INVALID_REQUEST")),
        (b'{"username": 1, "password": "x"}', "application/json", (422, "INVALID_REQUEST")),
        (b"[]", "application/json; charset=utf-8", (422, "INVALID_REQUEST")),
        (b"hello", "text/plain", (415, "UNSUPPORTED_MEDIA_TYPE")),
        (b"hello", "", (415, "UNSUPPORTED_MEDIA_TYPE")),
        (b"", "application/x-www-form-urlencoded", None),
        (b"username=%00&password=%00", "application/x-www-form-urlencoded", None),
        (b"--", "multipart/form-data", (422, "INVALID_REQUEST")),
    ],
)
async def test_bodies_that_sign_nobody_in(
    world: World, content: bytes, kind: str, expected: tuple[int, str] | None
) -> None:
    async with world.client() as client:
        response = await client.post("/login", content=content, headers={"content-type": kind})
        if expected is None:
            assert response.status_code == 401
        else:
            assert (response.status_code, response.json()["code"]) == expected


async def test_another_site_cannot_sign_a_visitor_in(world: World) -> None:
    given = {"username": "ada", "password": PASSWORD}
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        async with world.client(headers=headers) as client:
            response = await client.post("/login", data=given)
            assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")
            assert not set_cookies(response)


async def test_signing_out(world: World) -> None:
    async with world.browser(await world.cookie("ada")) as client:
        response = await client.post("/logout")
        assert (response.status_code, response.headers["location"]) == (303, "/login")
        assert f'{COOKIE}=""' in set_cookies(response)
    async with world.browser(cookie := await world.cookie("ada")) as client:
        response = await client.post("/logout", headers={"accept": "*/*"})
        assert response.status_code == 204
        assert await world.credentials.of_session(cookie) is None
    async with world.browser("ended") as client:
        assert (await client.post("/logout")).headers["location"] == "/login"


async def test_the_present_password_is_asked_for(world: World) -> None:
    async with world.browser(await world.cookie("ada")) as client:
        assert 'name="current"' in (await client.get("/account/password")).text
        given = {"password": "another password", "current": "wrong"}
        response = await client.post("/account/password", data=given)
        assert response.status_code == 401
        assert "The present password is wrong." in response.text
        response = await client.post("/account/password", data={"password": "short"})
        assert response.status_code == 422
        assert "10 to 256 characters" in response.text
        given["current"] = PASSWORD
        response = await client.post("/account/password", data=given)
        assert response.status_code == 303
        assert (await client.get("/account")).status_code == 200


async def test_home_leads_to_the_library_visited_last(world: World) -> None:
    async with world.browser(await world.cookie("ada")) as client:
        assert (await client.get("/")).headers["location"] == "/app/default/upload"
        await client.get("/app/acme/settings")
        assert (await client.get("/")).headers["location"] == "/app/acme/upload"


async def test_home_of_somebody_without_an_organization(world: World) -> None:
    await world.user("alone")
    async with world.browser(await world.cookie("alone")) as client:
        assert "You belong to no organization yet" in text(await client.get("/"))
        assert "You belong to none yet" in text(await client.get("/account"))


async def test_errors_are_pages_with_the_same_words(world: World) -> None:
    async with world.browser() as client:
        response = await client.get("/nowhere")
        assert response.status_code == 404
        assert "There is nothing here, or it is not yours to see." in response.text
        assert "NOT_FOUND" in response.text
        response = await client.put("/login")
        assert response.status_code == 405
    async with world.client() as client:
        assert (await client.get("/nowhere")).json()["code"] == "NOT_FOUND"


async def test_a_bad_token_in_a_browser_is_told_so(world: World) -> None:
    async with world.browser() as client:
        response = await client.get("/", headers={"authorization": "Bearer slt_x"})
        assert response.status_code == 401
        assert "unknown, expired or revoked" in response.text


async def test_pages_are_sound(world: World) -> None:
    """One h1, a skip link that leads somewhere, labelled fields, nothing inline."""
    cookie = await world.cookie("ada")
    async with world.browser(cookie) as client:
        pages = [
            await client.get(path)
            for path in ("/account", "/login", "/account/password", "/nowhere")
        ]
    for page in pages:
        body = page.text
        assert body.count("<h1") == 1
        assert 'href="#content"' in body
        assert 'id="content"' in body
        assert "<main" in body
        assert '<html lang="en">' in body
        assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", body)
        assert not re.search(r"<script(?![^>]*\ssrc=)", body)
        ids = re.findall(r'\sid="([^"]+)"', body)
        assert len(ids) == len(set(ids))
        for tag in re.findall(r"<(?:input|select)[^>]*>", body):
            hidden = 'type="hidden"' in tag or "aria-hidden" in tag
            name = re.search(r'\sid="([^"]+)"', tag)
            assert hidden or (name and f'for="{name[1]}"' in body), tag


async def test_a_page_with_letters_in_its_path_is_come_back_to(world: World) -> None:
    api = own_api()
    world.behind(api)

    @api.get("/app/{org}/uploads/{name}")
    async def page(access: Annotated[Access, allow(Role.VIEWER)]) -> None:
        del access

    async with world.browser() as client:
        response = await client.get("/app/acme/uploads/Fähre 1.jpg")
        form = await client.get(response.headers["location"])
        assert 'value="/app/acme/uploads/F%C3%A4hre%201.jpg"' in form.text
