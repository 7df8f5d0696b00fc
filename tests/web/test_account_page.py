"""One's own page as a browser without scripts meets it: sessions, passwords, organizations."""

import html
import re

import httpx
import pytest

from accounts.world import PASSWORD, World
from safelight.accounts.access import Role
from safelight.accounts.sign_in.links import make_link
from safelight.web.agents import in_words

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1"
EDGE = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36 Edg/131.0"


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("acme", "globex")
    await world.user("ada", {"acme": Role.ADMIN, "globex": Role.MEMBER})
    await world.user("new", {"acme": Role.MEMBER}, password=None)
    return world


def text(response: httpx.Response) -> str:
    return " ".join(html.unescape(response.text).split())


async def sign_in(world: World, agent: str, name: str = "ada") -> httpx.AsyncClient:
    client = world.browser(address="198.51.100.4")
    client.headers["user-agent"] = agent
    answer = await client.post("/login", data={"username": name, "password": PASSWORD})
    assert answer.status_code == 303
    return client


def handles(page: str) -> list[str]:
    return re.findall(r'name="session" value="(\w+)"', page)


async def is_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/account")).status_code == 200


async def test_sessions_are_told_apart_and_ended(world: World) -> None:
    desk, phone = await sign_in(world, CHROME), await sign_in(world, IPHONE)
    page = text(await desk.get("/account"))
    assert (
        page.index("Chrome on Linux") < page.index("this browser") < page.index("Safari on iPhone")
    )
    assert "From 198.51.100.4" in page
    [other] = handles(page)
    stranger = await sign_in(world, EDGE, "ada")
    assert await is_in(phone)
    ended = await desk.post("/account/sessions/end", data={"session": other})
    assert ended.headers["location"] == "/account#sessions"
    assert not await is_in(phone)
    assert await is_in(stranger)
    await desk.post("/account/sessions/end-others")
    assert not await is_in(stranger)
    assert handles((await desk.get("/account")).text) == []
    third = await sign_in(world, EDGE)
    assert (await third.post("/account/sessions/end-all")).headers["location"] == "/login"
    assert not await is_in(desk)
    assert not await is_in(third)


async def test_nobody_ends_the_session_of_another(world: World) -> None:
    await world.user("eve", {"acme": Role.ADMIN})
    ada, eve = await sign_in(world, CHROME), await sign_in(world, IPHONE, "eve")
    await sign_in(world, EDGE)
    [handle] = handles((await ada.get("/account")).text)
    for session in (handle, "", "x"):
        assert (
            await eve.post("/account/sessions/end", data={"session": session})
        ).status_code == 303
    await eve.post("/account/sessions/end-others")
    assert handles((await ada.get("/account")).text) == [handle]


async def test_without_a_password_leaving_is_explained_first(world: World) -> None:
    user = await world.db.fetchval("SELECT id FROM users WHERE username = 'new'")
    path = await make_link(world.db, world.ids, user, world.clock.now_ms())
    async with world.browser() as client:
        code = path.removeprefix("/login?code=")
        led = (await client.post("/login", data={"code": code})).headers["location"]
        assert led == "/account/password?next=/"
        first = text(await client.get(led))
        assert "you can only come back by a new link" in first
        assert '<a class="button button--quiet button--wide" href="/">Not now</a>' in first
        assert "You have no password yet" in text(await client.get("/account"))
        asked = await client.post("/logout")
        assert asked.headers["location"] == "/account/sign-out"
        page = text(await client.get("/account/sign-out"))
        assert "You have no password yet: set one, or you can only come back by a link" in page
        assert await is_in(client)
        short = await client.post("/account/password", data={"password": "x", "next": "/account"})
        assert short.status_code == 422
        assert "Not now" in short.text
        assert (await client.post("/account/sign-out")).headers["location"] == "/login"
        assert not await is_in(client)


async def test_with_a_password_set_on_the_way_in(world: World) -> None:
    user = await world.db.fetchval("SELECT id FROM users WHERE username = 'new'")
    path = await make_link(world.db, world.ids, user, world.clock.now_ms())
    async with world.browser() as client:
        await client.post("/login", data={"code": path.removeprefix("/login?code=")})
        chosen = {"password": PASSWORD, "next": "/app/acme/submissions?state="}
        saved = await client.post("/account/password", data=chosen)
        assert saved.headers["location"] == "/app/acme/submissions?state="
        chosen |= {"current": PASSWORD, "next": "//evil.example"}
        assert (await client.post("/account/password", data=chosen)).headers["location"] == "/"
        assert (await client.post("/logout")).headers["location"] == "/login"


async def test_leaving_an_organization(world: World) -> None:
    ada = await sign_in(world, CHROME)
    assert (await ada.post("/account/organizations/globex/leave")).status_code == 303
    assert (await ada.post("/account/organizations/globex/leave")).status_code == 404
    refused = await ada.post("/account/organizations/acme/leave")
    assert refused.status_code == 409
    assert "last admin" in text(refused)
    assert (await ada.get("/app/acme/settings")).status_code == 200


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (CHROME, "Chrome on Linux"),
        (IPHONE, "Safari on iPhone"),
        (EDGE, "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:132.0) Gecko/20100101 Firefox/132.0", "Firefox on macOS"),
        ("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/131.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.5.0", "curl"),
        ("python-httpx/0.28", "A Python program"),
        ("something", "An unknown browser"),
        (None, "An unknown browser"),
    ],
)  # fmt: skip
def test_browsers_in_words(agent: str | None, words: str) -> None:
    assert in_words(agent) == words
