"""What went wrong, on a page with a way on; and light or dark, as the browser remembers it."""

import re

import pytest
from starlette.requests import Request

from accounts.world import HERE, World, own_api
from safelight.accounts.access import Role
from safelight.accounts.guard import AsAnyone, open_to_everyone
from safelight.errors import NotFound, RateLimited, Unavailable
from safelight.web.session_cookie import THEME_COOKIE

ADDRESSES = ("/nowhere", "/app/default/nothing", "/app/default/upload/delete/x", "/account/theme")


@pytest.fixture
async def world(world: World) -> World:
    await world.organization("default")
    await world.user("vera", {"default": Role.VIEWER})
    return world


@pytest.mark.parametrize("path", ADDRESSES)
async def test_unknown_addresses_keep_the_navigation(world: World, path: str) -> None:
    async with world.browser(await world.cookie("vera")) as client:
        page = await client.get(path)
        assert page.status_code in {404, 405}
        assert '<nav class="rail__places" aria-label="Pages">' in page.text
        assert 'href="/app/default/upload">Go to the library</a>' in page.text
        assert 'class="framed"' in page.text
    async with world.browser() as client:
        page = await client.get(path)
        assert "Sign in</a>" in page.text
        assert 'class="rail' not in page.text
        assert page.text.count("<h1") == 1


async def test_an_unknown_address_does_not_need_the_database(world: World) -> None:
    cookie = await world.cookie("vera")
    await world.db.close()
    async with world.browser(cookie) as client:
        page = await client.get("/nowhere")
        assert page.status_code == 404
        assert "There is nothing here" in page.text


async def test_the_way_on_is_what_helps(world: World) -> None:
    api = own_api()

    @api.api_route("/failing", methods=["GET", "POST"], dependencies=[open_to_everyone])
    async def failing(kind: str) -> None:
        raise {"away": Unavailable(), "none": NotFound(), "often": RateLimited(retry_after=40)}[
            kind
        ]

    @api.get("/broken")
    async def broken(request: Request, caller: AsAnyone) -> None:
        del request, caller
        raise ZeroDivisionError

    world.behind(api)
    async with world.browser(await world.cookie("vera")) as client:
        page = (await client.get("/failing?kind=away")).text
        assert '<try-again data-after="5">' in page
        assert '<a class="button" href="/failing?kind=away">Try again</a>' in page
        assert "503 · UNAVAILABLE · req_" in page
        page = (await client.post("/failing?kind=away")).text
        assert "Try again</a>" not in page, "nobody knows what the form has done"
        assert "<try-again" not in page

        came = {"referer": f"{HERE}/app/default/upload?q=a&b"}
        page = (await client.get("/failing?kind=none", headers=came)).text
        assert 'href="/app/default/upload?q=a&amp;b">Back to where you were</a>' in page
        assert "Try again</a>" not in page
        page = (await client.get("/failing?kind=often")).text
        assert "Try again</a>" in page
        for foreign in (
            "https://evil.example/x",
            f"{HERE}//evil.example",
            "http://[",
            f"{HERE}/failing",
        ):
            page = (await client.get("/failing?kind=none", headers={"referer": foreign})).text
            assert "Back to where" not in page, foreign


async def test_light_or_dark_is_remembered(world: World) -> None:
    async with world.browser(await world.cookie("vera")) as client:
        page = (await client.get("/nowhere")).text
        assert '<html lang="en">' in page
        assert 'content="light dark"' in page
        came = {"referer": f"{HERE}/reference"}
        answer = await client.post("/account/theme", data={"theme": "dark"}, headers=came)
        assert (answer.status_code, answer.headers["location"]) == (303, "/reference")
        page = (await client.get("/nowhere")).text
        assert '<html lang="en" data-theme="dark">' in page
        assert 'value="dark" aria-pressed="true"' in page
        assert re.search(r'name="color-scheme" content="dark"', page)
        quiet = {"accept": "*/*"}
        answer = await client.post("/account/theme", data={"theme": "system"}, headers=quiet)
        assert answer.status_code == 204
        assert "data-theme" not in (await client.get("/nowhere")).text
        wrong = await client.post("/account/theme", data={"theme": '"><script>'})
        assert wrong.status_code == 422
    cookies = {THEME_COOKIE: '"><script>'}
    async with world.client(cookies=cookies, headers={"accept": "text/html"}) as client:
        assert "<script>" not in (await client.get("/login")).text
