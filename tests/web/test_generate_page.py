"""Generations and artifacts as a browser without scripts meets them: forms, refusals, rights."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import TOKEN
from inprocess import Application, application
from safelight.accounts.access import Grant, Role
from safelight.accounts.members import Members
from safelight.accounts.tokens import Tokens
from safelight.errors import InvalidRequest
from safelight.generations.lifecycle import MediaKind
from safelight.generations.request import GenerationRequest
from safelight.testing.waiting import until
from safelight.web.artifact.shown import ArtifactFilter
from safelight.web.generate.form import TypedGeneration, named, problem_of, wanted_of
from safelight.web.generate.shown import dollars, model_in_words

GENERATE, LIBRARY = "/app/default/generate", "/app/default/library"
HTML = {"accept": "text/html,application/xhtml+xml"}
ODD = 'a <i>lighthouse</i> at dusk & "gulls"\''
SMALL = {
    "prompt": ODD,
    "model": "studio/horizon",
    "size": "64x64",
    "count": "2",
    "tags": "sea, a b",
}


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    """Without a worker: nothing moves by itself."""
    async with application(database_url, tmp_path) as app:
        yield app


@pytest.fixture
async def working(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    async with application(database_url, tmp_path, worker=True) as app:
        yield app


def browser(app: Application, token: str = TOKEN) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}", **HTML}
    return httpx.AsyncClient(base_url=app.url, headers=headers, timeout=30)


async def as_role(app: Application, role: Role, organization: str = "default") -> httpx.AsyncClient:
    tokens = app.registry.get(Tokens)
    _, secret = await tokens.make(organization, Grant(role), name=role, maker=None)
    return browser(app, secret)


def words(page: str) -> str:
    body = re.sub(r"<svg.*?</svg>|<head>.*?</head>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def form(page: str, action: str) -> dict[str, str]:
    body = page.split(f'action="{html.escape(action)}"', maxsplit=1)[1].split("</form>", maxsplit=1)
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', body[0])
    return {name: html.unescape(value) for name, value in found}


async def generate(client: httpx.AsyncClient, **typed: str) -> str:
    """Its id, by the form that the page has."""
    page = (await client.get(GENERATE)).text
    answer = await client.post(GENERATE, data={**form(page, GENERATE), **SMALL, **typed})
    assert answer.status_code == 303, words(answer.text)
    return answer.headers["location"].rpartition("#")[2]


async def ready(client: httpx.AsyncClient, generation_id: str) -> str:
    """The page of one that is over."""

    async def check() -> str | None:
        page = (await client.get(f"{GENERATE}/{generation_id}")).text
        return page if 'data-state="ready"' in page or 'data-state="failed"' in page else None

    page: str = await until(check, 30, every=0.05)
    return page


def artifacts_in(page: str) -> list[str]:
    return re.findall(rf'class="made__open" href="{LIBRARY}/([\w-]+)"', page)


async def bytes_of(client: httpx.AsyncClient, artifact_id: str) -> bytes:
    answer = await client.get(f"/artifacts/{artifact_id}/content")
    assert answer.status_code == 200
    return answer.content


async def test_making_it_and_making_it_again(working: Application) -> None:
    async with browser(working) as client:
        empty = (await client.get(GENERATE)).text
        assert "Nothing was made yet" in words(empty)
        typed = {**form(empty, GENERATE), **SMALL}
        answer = await client.post(GENERATE, data=typed)
        twice = await client.post(GENERATE, data=typed)
        assert twice.headers["location"] == answer.headers["location"], "sent twice, asked once"
        there, _, made_id = answer.headers["location"].partition("#")
        page = await ready(client, made_id)
        assert ODD in words(page)
        assert "<i>" not in page
        assert "token “bootstrap” asked for 2 images" in words(page)

        shown = (await client.get(there)).text
        assert f'id="{made_id}"' in shown
        assert "Studio Horizon · 2 pictures · seed" in words(shown)
        assert ODD in html.unescape(shown.split("<textarea", 1)[1].split("</textarea>", 1)[0])
        assert 'value="64x64" selected' in shown, "as before"
        assert re.search(r'name="seed"[^>]* value=""', shown), "another, unless one was typed"
        seed = re.findall(r"seed (\d+)", words(shown))[0]
        edited = (await client.get(GENERATE, params={"from": made_id})).text
        assert re.search(rf'name="seed"[^>]* value="{seed}"', edited)
        assert 'value="a b, sea"' in edited

        first, second = artifacts_in(page)
        small = re.findall(r'src="(/artifacts/[^"]+)"', page)[0]
        assert "thumbnail?size=320&amp;v=" in small
        answer = await client.get(html.unescape(small))
        assert answer.headers["content-type"] == "image/webp"
        assert "immutable" in answer.headers["cache-control"]

        again = f"{GENERATE}/{made_id}/again"
        same = await client.post(again, data={**form(page, again), "seed": "same"})
        copies = artifacts_in(await ready(client, same.headers["location"].rpartition("#")[2]))
        for one, copy in zip((first, second), copies, strict=True):
            assert await bytes_of(client, one) == await bytes_of(client, copy)
        alone = await client.post(again, data={"seed": "same", "artifact": second})
        (copy,) = artifacts_in(await ready(client, alone.headers["location"].rpartition("#")[2]))
        assert await bytes_of(client, second) == await bytes_of(client, copy)
        nonce = form(page, again)["nonce"]
        new = await client.post(again, data={"seed": "new", "artifact": second, "nonce": nonce})
        (other,) = artifacts_in(await ready(client, new.headers["location"].rpartition("#")[2]))
        assert await bytes_of(client, second) != await bytes_of(client, other)


async def test_an_artifacts_page_and_its_end(working: Application) -> None:
    async with browser(working) as client:
        page = await ready(client, made_id := await generate(client))
        first, second = artifacts_in(page)
        here = f"{LIBRARY}/{first}"
        page = (await client.get(here)).text
        for part in (ODD, "Studio Horizon", "SHA-256", first, "64 × 64", "JPEG", "All 2"):
            assert part in words(page), part
        assert 'rel="prev"' in page or 'rel="next"' in page

        tagged = await client.post(f"{here}/tags", data={"add": " night "})
        assert tagged.headers["location"] == f"{here}#tags"
        refused = await client.post(f"{here}/tags", data={"add": "a/b"})
        assert refused.status_code == 422
        assert "cannot contain slashes" in words(refused.text)
        assert 'value="a/b"' in refused.text, "what was typed stays"
        listed = (await client.get(LIBRARY)).text
        assert "night 1" in words(listed)
        assert "sea 2" in words(listed)
        listed = (await client.get(LIBRARY, params={"tag": "night"})).text
        assert re.findall(r'data-key="([\w-]{36})"', listed) == [first]
        of_it = (await client.get(LIBRARY, params={"generation": made_id})).text
        assert len(re.findall(r'data-key="([\w-]{36})"', of_it)) == 2
        await client.post(f"{here}/tags", data={"remove": "night"})
        listed = (await client.get(LIBRARY, params={"tag": "night"})).text
        assert "Nothing here" in words(listed)

        asked = await client.post(f"{here}/publish", data={"title": "A light"})
        await client.post(f"{here}/publish", data={"title": "A light"})
        assert asked.headers["location"] == f"{here}#publish"
        page = (await client.get(here)).text
        assert page.count('class="image-publication"') == 1, "sent twice, asked once"
        assert "A light" in words(page)

        question = (await client.get(f"{LIBRARY}/{second}/delete", params={"tag": "sea"})).text
        assert "there is no way back" in words(question)
        gone = await client.post(f"{LIBRARY}/{second}/delete", params={"tag": "sea"})
        assert gone.headers["location"] == f"{LIBRARY}?tag=sea"
        page = (await client.get(f"{LIBRARY}/{second}")).text
        assert "This artifact was deleted" in words(page)
        assert "deleted one of its artifacts" in words(page)
        for answer in (
            await client.get(f"{LIBRARY}/{second}/delete"),
            await client.post(f"{LIBRARY}/{second}/delete"),
        ):
            assert answer.headers["location"] == f"{LIBRARY}/{second}"
        assert "Deleted" in words((await client.get(f"{GENERATE}/{made_id}")).text)


REFUSED = [
    ({"prompt": "  "}, "prompt", "Say what you want to see."),
    ({"model": "studio/unknown"}, "model", "The studio has no studio/unknown"),
    ({"model": ""}, "model", "Choose one."),
    ({"model": "runware", "vendor_model": " "}, "model", "Write the name of the vendor's model."),
    ({"model": "runware", "vendor_model": "a:1@2"}, "model", "Runware has no key on this server"),
    ({"kind": "song"}, "kind", "Choose pictures or clips."),
    ({"count": "21"}, "count", "A whole number from 1 to 20."),
    ({"count": "²"}, "count", "A whole number from 1 to 20."),
    ({"seed": "-1"}, "seed", "A seed is a whole number."),
    ({"seed": "9999999999999999999"}, "seed", "A whole number from 0 to"),
    ({"size": "big"}, "size", "Choose a size of the list."),
    ({"size": "9000x64"}, "size", "A whole number from 64 to 2048."),
    ({"kind": "video", "size": "1216x832"}, "size", "pixels together"),
    ({"tags": "a/b, c"}, "tags", "A tag cannot contain slashes"),
]  # fmt: skip


async def test_refusals_stand_beside_their_field(app: Application) -> None:
    async with browser(app) as client:
        for typed, where, said in REFUSED:
            answer = await client.post(GENERATE, data={**SMALL, **typed})
            assert answer.status_code == 422, typed
            problem = answer.text.split(f'id="{where}-problem"', 1)[1].split("</p>", 1)[0]
            assert said in words(f">{problem}"), typed
            assert "aria-invalid" in answer.text
            assert html.escape(typed.get("tags", "sea, a b")) in answer.text, "it stays"
        await app.db.execute(
            "INSERT INTO quota_limits VALUES ('default', 'generations_per_day', 1)"
        )
        answer = await client.post(GENERATE, data=SMALL)
        assert answer.status_code == 429
        assert "may order 1 artifact per day" in words(answer.text)
        assert "Generations today 0 of 1" in words(answer.text)
        assert await app.db.fetchval("SELECT count(*) FROM generations_inflight") == 0


async def test_calling_it_off(app: Application) -> None:
    async with browser(app) as client:
        made_id = await generate(client, count="3")
        page = (await client.get(GENERATE)).text
        assert "0 of 3" in words(page)
        assert "gives up" in words(page)
        assert page.count("Waiting for its turn") == 3
        assert 'data-every="3000"' in page
        answer = await client.post(f"{GENERATE}/{made_id}/cancel")
        assert answer.headers["location"] == f"{GENERATE}#{made_id}"
        page = (await client.get(GENERATE)).text
        assert words(page).count("Cancelled") == 3
        assert "data-every" not in page
        unknown = await client.post(f"{GENERATE}/{made_id}/again", data={"artifact": made_id})
        assert unknown.status_code == 404


async def test_who_may_see_and_who_may_make(app: Application) -> None:
    await app.registry.get(Members).make_organization("lab")
    async with (
        browser(app) as client,
        await as_role(app, Role.VIEWER) as viewer,
        await as_role(app, Role.MEMBER, "lab") as elsewhere,
    ):
        made_id = await generate(client)
        await app.db.execute(
            "INSERT INTO artifacts VALUES ('art', 'default', $1, 'image/png', 1, 'c', '{}', 0)",
            made_id,
        )
        seen = (await viewer.get(GENERATE)).text
        assert ODD in words(seen)
        assert "ask an admin for the role of a member" in words(seen)
        assert f'action="{GENERATE}' not in seen
        assert "<form" not in (await viewer.get(f"{LIBRARY}/art")).text.split("<main", 1)[1]
        doings: list[tuple[str, dict[str, Any]]] = [
            (GENERATE, SMALL), (f"{GENERATE}/{made_id}/cancel", {}),
            (f"{GENERATE}/{made_id}/again", {}), (f"{LIBRARY}/art/tags", {"add": "x"}),
            (f"{LIBRARY}/art/publish", {}), (f"{LIBRARY}/art/delete", {}),
        ]  # fmt: skip
        for path, typed in doings:
            assert (await viewer.post(path, data=typed)).status_code == 403, path
            assert (await elsewhere.post(path, data=typed)).status_code == 404, path
        for path in (f"generate/{made_id}", "library/art", "library/art/delete"):
            assert (await elsewhere.get(f"/app/default/{path}")).status_code == 404
            assert (await elsewhere.get(f"/app/lab/{path}")).status_code == 404, "not theirs"
        for path, typed in doings[1:]:
            there = path.replace("/default/", "/lab/")
            assert (await elsewhere.post(there, data=typed)).status_code == 404, there
        begun = await elsewhere.get("/app/lab/generate", params={"from": made_id})
        assert ODD not in words(begun.text)


async def test_a_long_list_comes_in_pages(app: Application) -> None:
    async with browser(app) as client:
        await app.db.execute(
            "INSERT INTO generations (id, organization, status, provider, kind, model, input, "
            "count, artifact_count, tasks, cost, created_at, timeout_at, completed_at) "
            "SELECT 'gen-' || n, 'default', 'ready', 'replicate', 'image', 'a/b', "
            "jsonb_build_object('prompt', 'no. ' || n), 1, 1, jsonb_build_array(jsonb_build_object("
            "'artifactId', 'art-' || n, 'status', 'ready', 'error', NULL)), 0.25, n, 9, "
            "extract(epoch FROM now()) * 1000 FROM generate_series(1, 14) AS n"
        )
        await app.db.execute(
            "INSERT INTO artifacts SELECT 'art-' || n, 'default', 'gen-' || n, 'video/webm', 1, "
            "'c', '{}', n FROM generate_series(1, 70) AS n"
        )
        first = (await client.get(GENERATE)).text
        assert "$3.50 in the last 30 days" in words(first)
        assert "Replicate · a/b" in words(first)
        ids = re.findall(r'class="band" id="(gen-\d+)"', first)
        assert ids == [f"gen-{n}" for n in range(14, 2, -1)]
        more = html.unescape(re.findall(r'rel="next" href="([^"]+)"', first)[0])
        second = (await client.get(more)).text
        assert re.findall(r'class="band" id="(gen-\d+)"', second) == ["gen-2", "gen-1"]

        listed = (await client.get(LIBRARY)).text
        more = html.unescape(re.findall(r'rel="next" href="([^"]+)"', listed)[0])
        both = listed + (await client.get(more)).text
        keys = re.findall(r'data-key="art-(\d+)"', both)
        assert keys == [str(n) for n in range(70, 0, -1)]
        assert (await client.get(LIBRARY, params={"cursor": "x"})).status_code == 422


def test_what_a_form_asks_for() -> None:
    typed = TypedGeneration(prompt=" a\r\nb ", count=" 3 ", seed="7", tags="x,, y,x")
    others = {"outputFormat": "PNG"}
    wanted = wanted_of(typed, others)
    assert dict(wanted.input) == {"outputFormat": "PNG", "prompt": "a\nb", "seed": 7}
    assert (wanted.count, wanted.tags, wanted.provider) == (3, ("x", "y"), "studio")


def test_a_seed_is_drawn_where_the_studio_is_asked_without_one() -> None:
    def asked(**more: Any) -> GenerationRequest:
        plain: dict[str, Any] = {"model": "studio/bloom", "wanted": {}, "provider": None, **more}
        return GenerationRequest.of(
            plain["model"], plain["wanted"], 1, [], plain["provider"], MediaKind.IMAGE
        )

    drawn, key = named(asked(), "n" * 8)
    assert drawn.input["seed"] in range(1_000_000)
    assert named(asked(), "n" * 8) == (drawn, key)
    assert named(asked(), "m" * 8)[0] != drawn
    assert named(asked(wanted={"seed": 5}), "n" * 8)[0].input["seed"] == 5
    assert "seed" not in named(asked(model="a/b", provider="replicate"), "n" * 8)[0].input
    assert named(asked(), "no nonce") == (asked(), None)


def test_words() -> None:
    assert problem_of(InvalidRequest("input.width and input.height: at most 4.")) == (
        "size", "At most 4.",
    )  # fmt: skip
    assert problem_of(InvalidRequest("elsewhere: no")) == ("", "elsewhere: no")
    assert [dollars(amount) for amount in (None, 0, 0.0021, 12)] == [
        None,
        None,
        "$0.0021",
        "$12.00",
    ]
    assert model_in_words("studio", "studio/bloom") == "Studio Bloom"
    assert ArtifactFilter("lab", "a&b").page_of("x") == "/app/lab/library/x?tag=a%26b"
