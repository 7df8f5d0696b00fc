"""An image's page as a browser without scripts meets it: its states, its rights, its forms."""

import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from harness import TOKEN, picture
from inprocess import Application, application
from safelight.accounts.access import Grant, Role
from safelight.accounts.members import Members
from safelight.accounts.tokens import Tokens
from safelight.infra.history import SYSTEM, Activity
from safelight.infra.injected import ImageId
from safelight.ingest.lifecycle import Image, ImageStatus, OffloadWait
from safelight.library.entry import Entry, RunStatus
from safelight.testing.waiting import until
from safelight.web.gallery.card import GalleryFilter
from safelight.web.image.shown import (
    FoundImage,
    address,
    labels,
    picture_of,
    renditions,
    standing,
    story,
)

PAGES, LIBRARY = "/app/default/images", "/app/default/upload"
HTML = {"accept": "text/html,application/xhtml+xml"}
ODD = "ä › b #1?&100%2F\"<i>'.jpg"


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


async def upload(client: httpx.AsyncClient, name: str = "boat.jpg", **more: Any) -> str:
    answer = await client.post(
        "/api/upload", files={"file": ("x.jpg", more.get("content") or picture())},
        params={"name": name},
    )  # fmt: skip
    assert answer.status_code == 201, answer.text
    return str(answer.json()["imageId"])


def words(page: str) -> str:
    body = re.sub(r"<svg.*?</svg>|<head>.*?</head>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def told(page: str) -> list[str]:
    """The sentences of its history."""
    found = re.findall(
        r'<p class="anywhere">(.*?)</p>', page.rsplit('class="story"', maxsplit=1)[-1], re.DOTALL
    )
    return [re.sub(r"\s+([.,])", r"\1", words(one)) for one in found]


def form(page: str, path: str) -> dict[str, str]:
    body = page.split(f'action="{PAGES}/{path}', maxsplit=1)[1].split("</form>", maxsplit=1)[0]
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', body)
    return {name: html.unescape(value) for name, value in found}


async def seen(client: httpx.AsyncClient, path: str, state: str) -> str:
    async def check() -> str | None:
        page = (await client.get(path)).text
        return page if f'data-state="{state}"' in page else None

    page: str = await until(check, 30)
    return page


async def test_from_its_way_to_its_label_its_end_and_its_successor(working: Application) -> None:
    async with browser(working) as client:
        image_id = await upload(client, ODD)
        here = f"{PAGES}/{image_id}"
        page = await seen(client, here, "Labelled")
        assert ODD in words(page)
        assert "<i>" not in page
        assert "thumbnail?size=1280&amp;v=" in page
        for part in ("SHA-256", "Image id", image_id, "Small", "Large", "Original", "JPEG"):
            assert part in words(page), part
        assert len(re.findall(r'<a href="/app/default/upload\?label=', page)) > 1
        sentences = told(page)
        assert sentences[-1].startswith("The token “bootstrap” uploaded it (")
        assert sentences[0].startswith("Labelled ")
        assert "told that it is in the store" not in words(page)
        inner = (await client.get(here, params={"details": "true"})).text
        assert len(told(inner)) > len(sentences)
        assert "Show less" in inner

        by_name = await client.get(PAGES, params={"name": ODD})
        assert (by_name.status_code, by_name.headers["location"]) == (303, here)

        again = await upload(client, ODD, content=picture(colour="teal"))
        replaced = await seen(client, here, "Replaced")
        assert f'href="{PAGES}/{again}"' in replaced
        assert "another upload of this name" in replaced
        assert "Delete" not in words(replaced)

        await client.post(f"{LIBRARY}/delete", data={"name": ODD})
        for one in (here, f"{PAGES}/{again}"):
            gone = await seen(client, one, "Deleted")
            assert "deleted it." in " ".join(told(gone))
        assert "This image was deleted." in words((await client.get(here)).text)
        assert (await client.get(PAGES, params={"name": ODD})).headers["location"].endswith(again)


async def test_publishing_by_the_form(working: Application) -> None:
    async with browser(working) as client:
        here = f"{PAGES}/{await upload(client)}"
        page = await seen(client, here, "Labelled")
        sent = form(page, "publish") | {"title": "The <b>boat</b>"}
        long = await client.post(f"{PAGES}/publish", data=sent | {"title": "x" * 201})
        assert long.status_code == 422
        assert "at most 200 characters" in words(long.text)
        other = await client.post(f"{PAGES}/publish", data=sent | {"marker": "another"})
        assert other.status_code == 409
        answer = await client.post(f"{PAGES}/publish?label=BOAT", data=sent)
        assert answer.headers["location"] == f"{here}?label=BOAT#publish"
        assert (await client.post(f"{PAGES}/publish", data=sent)).status_code == 303

        async def published() -> str | None:
            page = (await client.get(here)).text
            return page if "and it is public." in page else None

        page = await until(published, 60)
        assert f"{working.url}/public/sub_" in words(page)
        assert page.count("<article") == 1, "asked twice, made once"
        assert "The <b>boat</b>" in words(page)
        assert 'data-verb="publish"' not in page, "one at a time"
        assert "The checks found nothing against it, and it is public." in told(page)
        assert "The file is being checked." not in told(page)


async def test_who_may_what(app: Application) -> None:
    async with browser(app) as client:
        here = f"{PAGES}/{await upload(client)}"
    await app.registry.get(Members).make_organization("globex")
    async with await as_role(app, Role.VIEWER) as viewer:
        page = (await viewer.get(here)).text
        assert "boat.jpg" in page
        assert not re.search(r'data-verb="(publish|delete)"|<form[^>]*images', page)
        for verb in ("publish", "retry"):
            refused = await viewer.post(f"{PAGES}/{verb}", data={"name": "boat.jpg"})
            assert refused.status_code == 403
    async with await as_role(app, Role.ADMIN, "globex") as stranger:
        assert (await stranger.get(here)).status_code == 404
        moved = here.replace("/default/", "/globex/")
        assert (await stranger.get(moved)).status_code == 404
        named = await stranger.get("/app/globex/images", params={"name": "boat.jpg"})
        assert named.status_code == 404
    async with browser(app) as client:
        for nothing in ("nope", "img_2026%2F..", "x" * 300):
            assert (await client.get(f"{PAGES}/{nothing}")).status_code == 404, nothing
        for query in ({"name": "no.jpg"}, {"name": "a\0"}):
            assert (await client.get(PAGES, params=query)).status_code == 404
        assert (await client.get(here, params={"before": "x"})).status_code == 422
        assert (await client.post(f"{PAGES}/publish", data={})).status_code == 422


async def test_what_was_given_up_is_tried_again(app: Application) -> None:
    async with browser(app) as client:
        image_id = await upload(client)
        here = f"{PAGES}/{image_id}"
        page = (await client.get(here)).text
        assert "Being stored" in page
        assert "Try again" not in page
        assert 'data-every="' in page
        job = await app.db.fetchval(
            "UPDATE jobs SET status = 'dead', died_at = now(), owner = NULL, lease_until = NULL, "
            'error = \'{"code": "E", "message": "no"}\' WHERE kind = \'ingest.offload\' '
            "RETURNING id"
        )
        page = (await client.get(here)).text
        assert "Try again" in page
        async with await as_role(app, Role.MEMBER) as member:
            assert "Try again" not in (await member.get(here)).text
        for _ in range(2):
            answer = await client.post(f"{PAGES}/retry", data=form(page, "retry"))
            assert (answer.status_code, answer.headers["location"]) == (303, here)
        assert await app.db.fetchval("SELECT status FROM jobs WHERE id = $1", job) == "queued"
        assert "had it tried again: storing it" in words((await client.get(here)).text)


async def test_neighbours_are_those_of_the_library_one_comes_from(app: Application) -> None:
    for at, (name, label) in enumerate(
        [("one.jpg", "CAT"), ("two.jpg", "DOG"), ("three.jpg", "CAT"), ("4/four.jpg", "CAT")], 1
    ):
        await app.db.execute(
            "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, "
            "classification_status, classification_label, classification_score, search) "
            "VALUES ('default', $1, $2, 'test', 'k' || $1, 'done', $3, 0.9, "
            "array_to_tsvector(ARRAY['cat']))",
            name, at, label,
        )  # fmt: skip
    async with browser(app) as client:

        async def beside(name: str, **query: str) -> list[str | None]:
            page = (await client.get(PAGES, params={"name": name, **query})).text
            found = (re.search(rf'rel="{rel}" href="([^"]*)"', page) for rel in ("prev", "next"))
            return [one and html.unescape(one[1]) for one in found]

        def there(name: str, query: str = "") -> str:
            return f"{PAGES}?{query}name={quote(name, safe='')}"

        assert await beside("two.jpg") == [there("three.jpg"), there("one.jpg")]
        assert await beside("4/four.jpg") == [None, there("three.jpg")]
        ours = "label=CAT&"
        assert await beside("three.jpg", label="CAT") == [
            there("4/four.jpg", ours), there("one.jpg", ours),
        ]  # fmt: skip
        assert await beside("one.jpg", q="cat") == [there("two.jpg", "q=cat&"), None]
        assert await beside("one.jpg", q="zebra") == [None, None]
        assert await beside("one.jpg", q="!") == [None, None]
        assert await beside("one.jpg", status="failed") == [None, None]
        assert await beside("one.jpg", status="done") == [there("two.jpg", "status=done&"), None]
        page = (await client.get(PAGES, params={"name": "one.jpg", "label": "CAT"})).text
        assert f'href="{LIBRARY}?label=CAT" data-verb="back"' in page
        assert "in the bucket" in words(page)


async def test_a_long_story_is_told_in_parts(app: Application) -> None:
    async with browser(app) as client:
        here = f"{PAGES}/{await upload(client)}"
        await app.db.execute(
            "SELECT activity_append('default', 5, (SELECT jsonb_agg(jsonb_build_object("
            "'subject', 'upload:boat.jpg', 'type', 'never_heard_of', 'data', '{}'::jsonb)) "
            "FROM generate_series(1, 120)))"
        )
        page = (await client.get(here)).text
        assert len(told(page)) == 100
        assert told(page)[0] == "Never heard of."
        older = re.search(r'href="([^"]*before=\d+)"', page)
        assert older is not None
        page = (await client.get(html.unescape(older[1]))).text
        assert told(page)[-1].startswith("The token “bootstrap” uploaded it")
        assert "before=" not in page


# What is decided without asking anybody

IMAGE = Image(
    id=ImageId("img_1"), organization="lab", name="a.heic", idempotency_key="k1",
    status=ImageStatus.STORED, temp_path="", checksum="c", mime_type="image/heic", width=4000,
    height=3000, size_bytes=5, created_at=7, updated_at=7,
)  # fmt: skip
ENTRY = Entry(
    organization="lab", name="a.heic", event_time=9, idempotency_key="k1", image_id="img_1",
    mime_type="image/heic", width=4000, height=3000, size_bytes=5_000_000, checksum="c",
    dominant_color="#aabbcc", drawn=7, classification_status=RunStatus.DONE,
    classification_label="CAT", classification_score=0.4, classification_model="m",
    classified_at=6,
)  # fmt: skip
FOUND = FoundImage("a.heic", "k1", IMAGE, ENTRY)
TROUBLE = {"code": "E", "message": "The model is away."}


@pytest.mark.parametrize(
    ("found", "word", "says", "moves"),
    [
        (FOUND, "Labelled", "", False),
        (replace(FOUND, entry=replace(ENTRY, classification_status=RunStatus.PENDING)),
         "Finding its label", "", True),
        (replace(FOUND, entry=replace(ENTRY, classification_status=RunStatus.PENDING,
                                      error=TROUBLE, next_attempt_at=5)),
         "Waiting for a label", "The model is away.", True),
        (replace(FOUND, entry=replace(ENTRY, classification_status=RunStatus.FAILED,
                                      error=TROUBLE)),
         "No label", "The model is away.", False),
        (replace(FOUND, entry=None, holder=ENTRY), "Replaced", "A newer upload", False),
        (replace(FOUND, entry=None, coming=True), "Stored", "comes into the library", True),
        (replace(FOUND, entry=None), "Deleted", "gone for good", False),
        (FoundImage("x", None, None, None), "Deleted", "gone for good", False),
        (replace(FOUND, entry=None, image=replace(IMAGE, status=ImageStatus.INGESTED)),
         "Being stored", "", True),
        (replace(FOUND, entry=None, image=replace(IMAGE, status=ImageStatus.INGESTED),
                 wait=OffloadWait(5, {"code": "E", "message": "The store is away."})),
         "Waiting to be stored", "The store is away.", True),
        (replace(FOUND, entry=None, image=replace(IMAGE, status=ImageStatus.FAILED),
                 failure="The disk is full."),
         "Not stored", "The disk is full.", False),
    ],
)  # fmt: skip
def test_how_it_stands(found: FoundImage, word: str, says: str, moves: bool) -> None:
    now = standing(found)
    assert (now.word, now.moves) == (word, moves)
    assert says in now.words


def test_which_picture_is_shown() -> None:
    shown = picture_of("lab", FOUND, originals=False)
    assert shown is not None
    assert shown.source == "/api/organizations/lab/uploads/a.heic/thumbnail?size=1280&v=c"
    assert shown.placeholder is not None
    assert not shown.zooms, "no browser shows it"
    undrawn = replace(FOUND, entry=replace(ENTRY, drawn=0))
    assert picture_of("lab", undrawn, originals=False) is None
    jpeg = replace(FOUND, entry=replace(ENTRY, drawn=0, mime_type="image/jpeg"))
    shown = picture_of("lab", jpeg, originals=False)
    assert shown is not None
    assert (shown.source, shown.placeholder) == (shown.original, None)
    assert picture_of("lab", replace(FOUND, entry=None), originals=False) is None


def test_renditions_are_never_larger_than_the_original() -> None:
    rows = renditions("lab", ENTRY, 5000, None)
    assert [(row.title, row.pixels, row.size) for row in rows] == [
        ("Small", "320 × 240", "4.9 KB"), ("Large", "1,280 × 960", None),
        ("Original", "4,000 × 3,000", "4.8 MB"),
    ]  # fmt: skip
    tiny = renditions("lab", replace(ENTRY, width=10, height=4000), 1, 1)
    assert [row.pixels for row in tiny] == ["1 × 320", "3 × 1,280", "10 × 4,000"]
    bare = replace(ENTRY, drawn=0, width=None, mime_type=None, size_bytes=None)
    assert [(row.kind, row.pixels, row.size) for row in renditions("lab", bare, None, None)] == [
        ("Unknown", None, None)
    ]


def test_labels_say_how_sure_they_are() -> None:
    (only,) = labels("lab", ENTRY)
    assert (only.label, only.percent, only.unsure) == ("CAT", "40 %", True)
    runners = ({"label": "CAT", "score": 0.9}, {"label": "A&B", "score": 0.001})
    best, other = labels("lab", replace(ENTRY, labels=runners))
    assert (best.unsure, other.percent) == (False, "< 1 %")
    assert other.address == "/app/lab/upload?label=A%26B"
    assert labels("lab", replace(ENTRY, classification_label=None)) == []


def test_the_story_says_whose_line_it_is() -> None:
    holder = replace(ENTRY, idempotency_key="k2", image_id="img_2")
    lines = [
        Activity(5, "upload_stored", 5, {"imageId": "img_2"}),
        Activity(4, "classification_updated", 4, {"idempotencyKey": "k2"}),
        Activity(3, "classification_updated", 3, {"idempotencyKey": "k0"}),
        Activity(2, "submission_state_changed", 2, {"to": "TIER1_SCANNING", "actor": SYSTEM}),
        Activity(2, "submission_state_changed", 2, {"to": "REJECTED", "id": "sub_2"}),
        Activity(1, "upload_stored", 1, {"imageId": "img_1"}),
    ]
    found = replace(FOUND, entry=None, holder=holder)
    shown = story("lab", found, lines, ["sub_1"], inner=False)
    there = "/app/lab/images/img_2"
    assert [(one.seq, one.of_another, one.elsewhere) for one in shown] == [
        (5, True, there), (4, True, there), (3, True, None), (2, True, None), (1, False, None),
    ]  # fmt: skip
    assert len(story("lab", found, lines, ["sub_1"], inner=True)) == len(lines)


def test_addresses() -> None:
    assert address("lab", "img_1", "a") == "/app/lab/images/img_1"
    wanted = GalleryFilter(q="a b")
    assert address("lab", None, "a/b", wanted) == "/app/lab/images?q=a+b&name=a%2Fb"
