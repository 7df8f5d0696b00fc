"""The gallery and upload page as a browser without scripts meets it."""

import html
import io
import json
import random
import re
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from PIL import Image

from harness import TOKEN, picture
from inprocess import Application, application
from safelight.accounts.access import Grant, Role
from safelight.accounts.tokens import Tokens
from safelight.classification.similar.twins import Twins
from safelight.infra.activity import Units
from safelight.infra.history import Line
from safelight.testing.waiting import until

PAGE = "/app/default/upload"
PHOTOS = Path(__file__).parents[1] / "photos"
HTML = {"accept": "text/html,application/xhtml+xml"}
ODD = "ä › b #1?&100%\"<i>'.jpg"


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


async def viewer(app: Application) -> httpx.AsyncClient:
    tokens = app.registry.get(Tokens)
    _, secret = await tokens.make("default", Grant(Role.VIEWER), name="v", maker=None)
    return browser(app, secret)


async def post(
    client: httpx.AsyncClient, name: str, content: bytes | None = None
) -> httpx.Response:
    return await client.post(PAGE, files={"file": (name, content or picture())})


async def labelled(client: httpx.AsyncClient, *names: str) -> str:
    async def check() -> str | None:
        page = (await client.get(PAGE)).text
        return page if all(states(page).get(name) == "labelled" for name in names) else None

    page: str = await until(check)
    return page


def states(page: str) -> dict[str, str]:
    """Name to state, in the order of the page."""
    found = re.findall(r'<li class="shot" data-name="([^"]*)" data-state="([\w-]+)"', page)
    return {html.unescape(name): state for name, state in found}


def card(page: str, name: str) -> str:
    """The text between one card's tags."""
    body = page.split(f'data-name="{html.escape(name)}"')[1].split("</li>", maxsplit=1)[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body.partition(">")[2])).split())


def tiles(page: str) -> dict[str, Any]:
    """What the page's script is told, by name."""
    found = re.findall(r"data-name=\"([^\"]+)\".*?data-tile='([^']+)'", page)
    return {html.unescape(name): json.loads(html.unescape(tile)) for name, tile in found}


async def named(client: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"{PAGE}/tiles/named?name={name}")).json()[
        "tiles"
    ]
    return found


def choices(page: str, key: str) -> dict[str, str]:
    """What a filter offers, and how many there are of each."""
    menu = page.split(f'data-key="{key}"')[2].split("</details>", maxsplit=1)[0]
    found = re.findall(r"<a [^>]*>(?:<span[^>]*>)?([^<]+)(?:</span> <span[^>]*>([^<]+))?", menu)
    return {words.strip(): count for words, count in found}


async def insert(app: Application, name: str, at: int, **values: Any) -> None:
    columns = {
        "organization": "default",
        "name": name,
        "event_time": at,
        "source": "test",
        "idempotency_key": f"key-{name}",
        **values,
    }
    marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    await app.db.execute(
        f"INSERT INTO uploads ({', '.join(columns)}) VALUES ({marks})", *columns.values()
    )


async def test_the_empty_page_says_what_to_do(app: Application) -> None:
    async with browser(app) as client:
        page = html.unescape((await client.get(PAGE)).text)
    assert "No images yet" in page
    assert "Drop photographs anywhere on this page" in page
    assert 'data-empty="matches" hidden' in page
    assert 'enctype="multipart/form-data"' in page
    assert 'accept="image/jpeg,image/png,image/webp,image/gif,image/avif,image/heic,.heic"' in page
    assert re.search(r'<a class="place" href="/app/default/upload"[^>]* aria-current="page">', page)


async def test_a_form_uploads_and_comes_back(app: Application) -> None:
    async with browser(app) as client:
        answer = await post(client, "boat.jpg")
        assert answer.status_code == 303
        page = (await client.get(answer.headers["location"])).text
        assert "boat.jpg was received." in page
        assert states(page) == {"boat.jpg": "received"}
        assert card(page, "boat.jpg") == "boat.jpg Received"
        assert 'href="/app/default/images/img_' in page
        assert "/content" not in page, "there is nothing to show yet"


async def test_a_form_never_replaces(app: Application) -> None:
    async with browser(app) as client:
        for _ in range(3):
            await post(client, "boat.jpg")
        page = (await client.get(PAGE)).text
    assert list(states(page)) == ["boat (3).jpg", "boat (2).jpg", "boat.jpg"]


async def test_a_form_may_be_as_large_as_an_upload(app: Application) -> None:
    noise = random.Random(1).randbytes(3 * 1024 * 1024)
    async with browser(app) as client:
        assert (await post(client, "a.jpg", picture() + noise)).status_code == 303
        other = await client.post(f"{PAGE}/delete", data={"name": "a" * 2**21})
        assert (other.status_code, "FILE_TOO_LARGE" in other.text) == (413, True)


@pytest.mark.parametrize(
    ("content", "words"), [(b"hello, this is text", "is not accepted"), (b"", "The file is empty.")]
)
async def test_a_refusal_is_told_on_the_page(app: Application, content: bytes, words: str) -> None:
    async with browser(app) as client:
        answer = await client.post(PAGE, files={"file": ("a.jpg", content)})
        assert answer.status_code == 400
        assert re.search(rf'role="alert">[^<]*{words}', answer.text)
        assert 'class="choose__form"' in answer.text
        assert (await client.post(PAGE, content=b"x")).status_code == 400


async def test_a_made_up_receipt_says_nothing(app: Application) -> None:
    async with browser(app) as client:
        for value in ("img_x", "<script>", "%00", "You+have+won"):
            answer = await client.get(f"{PAGE}?received={value}")
            assert "was received" not in answer.text
            assert answer.status_code in {200, 422}


async def test_labelled_images_are_shown_in_two_sizes(working: Application) -> None:
    async with browser(working) as client:
        await post(client, "cat.jpg", (PHOTOS / "cat.jpg").read_bytes())
        await client.post("/api/upload", params={"name": ODD}, files={"file": ("x", picture())})
        page = await labelled(client, "cat.jpg", ODD)
        assert re.search(r"^cat.jpg \S.* \d+ % Labelled", card(page, "cat.jpg"))
        small, large = re.findall(r"(\S+) \d+w", re.findall(r'srcset="([^"]+)"', page)[0])
        for address, most in ((small, 320), (large, 1280)):
            answer = await client.get(html.unescape(address))
            assert answer.headers["content-type"] == "image/webp"
            assert "immutable" in answer.headers["cache-control"]
            with Image.open(io.BytesIO(answer.content)) as shown:
                assert max(shown.size) == min(most, 451)
        tile = tiles(page)["cat.jpg"]
        assert re.fullmatch("#[0-9a-f]{6}", tile["tint"])
        assert (tile["width"], tile["height"]) == (451, 300)
        for address in re.findall(r'(?:src|href)="(/app/[^"]+|/api/[^"]+)"', page):
            assert (await client.get(html.unescape(address))).status_code == 200, address
        [address] = re.findall(r'href="([^"]*label=[^"]*)"', page)[:1]
        found = (await client.get(html.unescape(address))).text
        assert len(states(found)) == 1
        assert "chip--on" in found


async def test_a_guess_is_called_one(app: Application) -> None:
    for name, score in (("sure.jpg", 0.5), ("guess.jpg", 0.49)):
        await insert(
            app, name, 1, classification_label="TIGER CAT", classification_score=score,
            classification_status="done",
        )  # fmt: skip
    async with browser(app) as client:
        page = (await client.get(PAGE)).text
    assert card(page, "sure.jpg").startswith("sure.jpg Tiger cat 50 %")
    assert card(page, "guess.jpg").startswith("guess.jpg Maybe tiger cat 49 %")


async def test_deleting_asks_first(working: Application) -> None:
    async with browser(working) as client:
        await client.post("/api/upload", params={"name": ODD}, files={"file": ("x", picture())})
        await labelled(client, ODD)
        question = await client.get(f"{PAGE}/delete", params={"name": ODD})
        assert f'<strong class="anywhere">{ODD}</strong>' in html.unescape(question.text).replace(
            "&#39;", "'"
        )
        assert ODD in states((await client.get(PAGE)).text), "asking changes nothing"
        answer = await client.post(f"{PAGE}/delete", data={"name": ODD})
        assert answer.status_code == 303
        assert "Deleted." in (await client.get(answer.headers["location"])).text

        async def gone() -> bool:
            return ODD not in states((await client.get(PAGE)).text)

        await until(gone)


@pytest.mark.parametrize("name", ["never.jpg", "", "a/b", "..", "%00", "x" * 300])
async def test_what_never_was_cannot_be_deleted(app: Application, name: str) -> None:
    async with browser(app) as client:
        for answer in (
            await client.get(f"{PAGE}/delete?name={name}"),
            await client.post(f"{PAGE}/delete", data={"name": name}),
        ):
            assert answer.status_code in {404, 422}
            assert "<h1 " in answer.text


async def test_a_viewer_looks_and_does_not_touch(app: Application) -> None:
    await insert(app, "a.jpg", 1)
    async with await viewer(app) as client:
        page = (await client.get(PAGE)).text
        assert states(page) == {"a.jpg": "stored"}
        for words in (
            "upload-choose",
            "upload-drop",
            "upload-tray",
            'data-verb="delete"',
            'data-verb="submit"',
        ):
            assert words not in page
        assert 'data-verb="download"' in page
        assert (await post(client, "b.jpg")).status_code == 403
        assert (await client.get(f"{PAGE}/delete?name=a.jpg")).status_code == 403
        assert (await client.post(f"{PAGE}/delete", data={"name": "a.jpg"})).status_code == 403
        assert (await client.get("/app/acme/upload")).status_code == 404


async def test_failures_are_told_in_words(app: Application) -> None:
    async with browser(app) as client:
        await post(client, "lost.jpg")
        await app.db.execute("UPDATE images SET status = 'FAILED'")
        image_id = await app.db.fetchval("SELECT id FROM images")
        error = {"code": "STORAGE_ERROR", "message": "The file is <gone>."}
        async with app.registry.get(Units).open("default") as unit:
            told = {"to": "FAILED", "error": error}
            unit.tell(Line(f"image:{image_id}", "upload_failed", told))
        for name, status in (("bad.jpg", "failed"), ("slow.jpg", "running")):
            await insert(app, name, 1, run=1, classification_status=status)
            await app.db.execute(
                "INSERT INTO classification_runs (organization, name, idempotency_key, run, status, error, started_at)"
                " VALUES ('default', $1, $2, 1, $3, $4, 1)",
                name, f"key-{name}", status, {"code": "X", "message": "The model is away."},
            )  # fmt: skip
        page = (await client.get(PAGE)).text
    assert card(page, "lost.jpg").startswith("lost.jpg The file is <gone>. Not stored")
    assert card(page, "bad.jpg").startswith("bad.jpg The model is away. No label")
    assert card(page, "slow.jpg").startswith("slow.jpg Trying again. The model is away. Stored")


async def test_what_was_sent_again_or_deleted_is_not_on_its_way(app: Application) -> None:
    async with browser(app) as client:
        for name in ("again.jpg", "deleted.jpg", "stored.jpg"):
            await client.post("/api/upload", files={"file": (name, picture())})
        await client.post("/api/upload", files={"file": ("again.jpg", picture(size=(8, 8)))})
        await insert(app, "stored.jpg", 1)
        await app.db.execute(
            "INSERT INTO tombstones (organization, name, event_time, source, buried_at)"
            " SELECT 'default', name, created_at, 'test', 1 FROM images WHERE name = 'deleted.jpg'"
        )
        page = (await client.get(PAGE)).text
    assert states(page) == {"again.jpg": "received", "stored.jpg": "stored"}
    assert tiles(page)["again.jpg"]["width"] == 8


async def test_pages_follow_one_another_without_gap_or_repeat(app: Application) -> None:
    for number in range(110):
        await insert(app, f"{number}.jpg", 1000 + number // 3, classification_label="DAISY")
    seen: list[str] = []
    async with browser(app) as client:
        await post(client, "waiting.jpg")
        address: str | None = PAGE
        while address:
            page = (await client.get(address)).text
            seen += states(page)
            await insert(app, f"new {len(seen)}.jpg", 5000)
            following = re.findall(r' rel="next" href="([^"]+)"', page)
            address = html.unescape(following[0]) if following else None
    assert seen[0] == "waiting.jpg"
    assert sorted(seen[1:]) == sorted(f"{number}.jpg" for number in range(110))


async def test_search_and_filters(app: Application) -> None:
    await insert(
        app, "tiger.jpg", 3, classification_label="TIGER CAT", classification_status="done"
    )
    await insert(app, "b.jpg", 2, classification_label="DAISY", classification_status="done")
    await insert(app, "c.jpg", 1, classification_status="failed")
    await app.db.execute(
        "UPDATE uploads SET search = array_to_tsvector(ARRAY['tiger', 'cat', 'jpg']) WHERE name = 'tiger.jpg'"
    )
    async with browser(app) as client:
        await post(client, "tiger new.jpg")
        for query, names in {
            "q=&label=&status=": ["tiger new.jpg", "tiger.jpg", "b.jpg", "c.jpg"],
            "q=tig": ["tiger new.jpg", "tiger.jpg"],
            "q=tig+ca": ["tiger.jpg"],
            "label=DAISY": ["b.jpg"],
            "status=failed": ["c.jpg"],
            "q=zebra": [],
            "q=…": [],
        }.items():
            page = (await client.get(f"{PAGE}?{query}")).text
            assert list(states(page)) == names, query
            assert ('data-empty="matches" hidden' in page) is bool(names or query.endswith("="))
        page = (await client.get(f"{PAGE}?label=DAISY&q=%22%3Cb%3E")).text
        assert '<input type="hidden" name="label" value="DAISY">' in page
        assert 'value="&#34;&lt;b&gt;"' in page
        assert "needs a letter or a digit" in (await client.get(f"{PAGE}?q=…")).text
        page = (await client.get(f"{PAGE}?label=DAISY")).text
        assert choices(page, "label") == {"Any label": "", "Daisy": "1", "Tiger cat": "1"}
        assert choices(page, "status") == {"Any state": "", "Labelled": "1"}
        assert 'data-total="1"' in page
        fragment = (await client.get(f"{PAGE}/filters?status=failed")).text
        assert choices(fragment, "label") == {"Any label": ""}
        assert "<html" not in fragment
        for query in ("status=king", "label=%00", "cursor=x", f"q={'x' * 501}"):
            assert (await client.get(f"{PAGE}?{query}")).status_code == 422, query


async def test_a_cursor_belongs_to_its_search(app: Application) -> None:
    for number in range(60):
        await insert(app, f"{number}.jpg", number)
    async with browser(app) as client:
        [address] = re.findall(r'rel="next" href="([^"]+)"', (await client.get(PAGE)).text)
        assert (await client.get(address)).status_code == 200
        assert (await client.get(f"{address}&label=DAISY")).status_code == 422


async def test_tiles_of_given_names(app: Application) -> None:
    await insert(app, ODD, 1)
    path = f"{PAGE}/tiles/named"
    async with browser(app) as client:
        await post(client, "new.jpg")
        query = f"name={quote(ODD)}&name=new.jpg&name=none.jpg&name={ODD[0]}"
        found = (await client.get(f"{path}?{query}")).json()["tiles"]
        assert {tile["name"]: tile["state"] for tile in found} == {
            ODD: "stored", "new.jpg": "received",
        }  # fmt: skip
        assert (await client.get(found[0]["href"])).is_success
        filtered = await client.get(f"{path}?status=done&{query}")
        assert filtered.json()["tiles"] == []
        assert (await client.get(path)).status_code == 422
        assert (await client.get(f"{path}?{'name=a&' * 51}")).status_code == 422
        assert (await client.get(f"{path}?name=%00")).status_code == 422


async def test_windows_in_both_directions(app: Application) -> None:
    """From anywhere, by any filter, each image once."""
    for number in range(300):
        await insert(
            app, f"{number:03}.jpg", 1000 + number // 3, classification_label="DAISY",
            classification_status="done",
        )  # fmt: skip
    await insert(app, "none.jpg", 1050)
    async with browser(app) as client:
        await post(client, "waiting.jpg")

        async def ask(**query: Any) -> tuple[list[str], str | None, str | None]:
            window = (await client.get(f"{PAGE}/tiles", params=query)).json()
            return [tile["name"] for tile in window["tiles"]], window["older"], window["newer"]

        names, older, newer = await ask(label="DAISY", at=1030)
        assert names[0] == "092.jpg"
        while older:
            more, older, _ = await ask(label="DAISY", older=older)
            names += more
        while newer:
            more, _, newer = await ask(label="DAISY", newer=newer)
            names = more + names
        assert names == [f"{number:03}.jpg" for number in reversed(range(300))]
        first, _, newer = await ask()
        assert (first[0], newer) == ("waiting.jpg", None)
        _, _, newer = await ask(at=1098)
        assert (await ask(newer=newer))[0][0] == "waiting.jpg", "the newest are on their way"
        for bad in ({"older": "x"}, {"newer": "x"}, {"at": -1}, {"at": 2**63}):
            assert (await client.get(f"{PAGE}/tiles", params=bad)).status_code == 422, bad


async def test_months_by_the_readers_clock(app: Application) -> None:
    def at(text: str) -> int:
        return round(datetime.fromisoformat(text).timestamp() * 1000)

    moments = ("2023-01-31T23:30+00:00", "2023-02-01T00:30+00:00", "2026-11-19T10:00+00:00")
    for moment in moments:
        await insert(app, f"{moment[:13]}.jpg", at(moment), classification_label="DAISY")
    async with browser(app) as client:

        async def months(query: str) -> list[tuple[int, int, int]]:
            answer = (await client.get(f"{PAGE}/months?{query}")).json()
            return [(one["begins"], one["newest"], one["count"]) for one in answer["months"]]

        assert await months("") == [
            (at("2026-11-01T00:00+00:00"), at(moments[2]), 1),
            (at("2023-02-01T00:00+00:00"), at(moments[1]), 1),
            (at("2023-01-01T00:00+00:00"), at(moments[0]), 1),
        ]
        assert (await months("ahead=60&label=DAISY"))[1:] == [
            (at("2023-02-01T00:00+01:00"), at(moments[1]), 2)
        ]
        assert await months("label=KING") == []
        assert (await client.get(f"{PAGE}/months?ahead=900")).status_code == 422


async def test_what_looks_alike(working: Application) -> None:
    async with browser(working) as client:
        for name in ("cat", "daisy"):
            await post(client, f"{name}.jpg", (PHOTOS / f"{name}.jpg").read_bytes())
        await post(client, "gold.jpg", picture(colour="gold"))
        await labelled(client, "cat.jpg", "daisy.jpg", "gold.jpg")
        page = (await client.get(f"{PAGE}?like=cat.jpg")).text
        assert set(states(page)) == {"daisy.jpg", "gold.jpg"}
        assert f'href="{PAGE}">' in page
        assert "data-still" in page
        assert (await client.get(f"{PAGE}?like=none.jpg")).status_code == 404
        await insert(working, "bare.jpg", 1)
        page = (await client.get(f"{PAGE}?like=bare.jpg")).text
        assert "cannot be compared yet" in page


async def test_the_page_knows_from_where_to_listen(app: Application) -> None:
    async with browser(app) as client:
        assert 'data-after="0"' in (await client.get(PAGE)).text
        await post(client, "a.jpg")
        newest = await app.db.fetchval("SELECT max(seq) FROM activity")
        assert f'data-after="{newest}"' in (await client.get(PAGE)).text


async def test_the_pages_are_sound(app: Application) -> None:
    await insert(
        app, "a.jpg", 1, width=3, height=2, classification_label="DAISY", classification_score=0.5
    )
    async with browser(app) as client:
        await post(client, "b.jpg")
        pages = [
            await client.get(path) for path in (PAGE, f"{PAGE}?q=x", f"{PAGE}/delete?name=a.jpg")
        ]
    for body in (page.text for page in pages):
        assert body.count("<h1") == 1
        assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", body)
        assert not re.search(r"<script(?![^>]*\ssrc=)", body)
        ids = re.findall(r'\sid="([^"]+)"', body)
        assert len(ids) == len(set(ids))
        for tag in re.findall(r"<(?:input|select)\s[^>]*>", body):
            name = re.search(r'\sid="([^"]+)"', tag)
            is_named = 'type="hidden"' in tag or "aria-label=" in tag
            assert is_named or (name and f'for="{name[1]}"' in body), tag
        for tag in re.findall(r"<img[^>]*>", body):
            assert " alt=" in tag


async def test_between_stored_and_listed_a_card_is_not_lost(app: Application) -> None:
    async with browser(app) as client:
        await post(client, "between.jpg")
        image_id, checksum = await app.db.fetchval("SELECT (id, checksum) FROM images")
        await app.db.execute("UPDATE images SET status = 'STORED'")
        assert await named(client, "between.jpg") == []
        await app.db.execute("INSERT INTO blobs (sha256, size) VALUES ($1, 1)", checksum)
        await app.db.execute(
            "INSERT INTO objects VALUES ('default/between.jpg', 'default', 'between.jpg', true, $1, 1,"
            " 'image/jpeg', $2, 'etag', 1)",
            checksum,
            {"imageId": image_id},
        )
        [tile] = await named(client, "between.jpg")
        assert tile["state"] == "stored"
        assert "/content?v=" in tile["picture"]


async def test_a_delete_before_it_was_stored_is_seen_at_once(app: Application) -> None:
    async with browser(app) as client:
        await post(client, "unwanted.jpg")
        answer = await client.delete("/api/organizations/default/uploads/unwanted.jpg")
        assert answer.status_code == 202
        assert states((await client.get(PAGE)).text) == {}
        assert await named(client, "unwanted.jpg") == []


async def test_images_that_look_alike_have_a_page(working: Application) -> None:
    async with browser(working) as client:
        assert f'href="{PAGE}/duplicates"' in (await client.get(PAGE)).text
        assert "No duplicates" in (await client.get(f"{PAGE}/duplicates")).text
        for name in ("one.jpg", "two.jpg", "three.jpg"):
            await post(client, name, picture(colour="gold"))
        await labelled(client, "one.jpg", "two.jpg", "three.jpg")
        await working.registry.get(Twins).compare()
        page = (await client.get(f"{PAGE}/duplicates")).text
        assert "3 identical copies" in page
        assert [name in page for name in ("one.jpg", "two.jpg", "three.jpg")] == [True] * 3
        assert 'aria-label="Delete two.jpg"' in page
    async with await viewer(working) as looking:
        assert "Delete two.jpg" not in (await looking.get(f"{PAGE}/duplicates")).text
