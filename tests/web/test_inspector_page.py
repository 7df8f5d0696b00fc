"""What happened in an organization as its page tells it: to whom, of what, since when, and where it goes on."""

import html
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from inprocess import Application, application
from library.touched import touching
from safelight.accounts.access import Role
from safelight.infra import feed
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.history import Activity, Line
from safelight.infra.injected import iso
from safelight.live.messages import FOR_ADMINS, INNER
from safelight.testing.waiting import until
from safelight.web.inspector.stream import Flurry, Happening, by_hour, gathered, told
from safelight.web.inspector.topics import MANY, TOPICS, StreamFilter, topic_of
from safelight.web.story.words import said
from safelight.wiring import MESSAGES
from web.reading import as_role, browser, read, words

PAGE, HOUR = "/app/default/inspector", 3_600_000
ADA = {"actor": {"type": "user", "name": "ada"}}
ODD = "ä \"<b>&'.jpg"


@pytest.fixture
async def app(database_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    """Without a worker: nothing moves by itself."""
    async with application(database_url, tmp_path) as app:
        yield app


async def tell(app: Application, *lines: Line, at: int | None = None) -> None:
    async with app.registry.get(Units).open("default") as unit:
        unit.tell(*lines)
    if at is not None:
        await app.db.execute(
            "UPDATE activity SET at = $1 WHERE seq > (SELECT max(seq) FROM activity) - $2",
            at,
            len(lines),
        )


def labelled(name: str = "cat.jpg", label: str = "CAT") -> Line:
    return Line(
        f"upload:{name}", "classification_updated",
        {"name": name, "classificationLabel": label, "classificationScore": 0.9},
    )  # fmt: skip


def lines_of(page: str) -> list[str]:
    """Newest first."""
    found = re.findall(r'<li class="happening .*?<p class="anywhere">(.*?)</p>', page, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", "", one)).split()) for one in found]


async def lines(client: httpx.AsyncClient, query: str = "") -> list[str]:
    return lines_of(await read(client, PAGE + query))


async def test_lines_filters_and_roles(app: Application) -> None:
    async with browser(app) as admin, await as_role(app, Role.VIEWER) as viewer:
        assert "Nothing to tell" in words(await read(viewer, PAGE + "?only=approvals"))
        await tell(
            app,
            labelled(ODD),
            Line(f"upload:{ODD}", "run_attempt", {"attempt": 1}),
            Line("user:bob", "member_invited", {"role": "viewer", **ADA}),
            Line("approval:apr_1", "approval_requested", {"id": "apr_1", "title": "<Why>?", **ADA}),
            Line("upload:gone.jpg", "upload_deleted", {"name": "gone.jpg"}),
        )
        label = f"{ODD} · Labelled cat, 90 % sure."
        asked, gone = "<Why>? · Ada asks for a decision: “<Why>?”.", "gone.jpg · It is gone from"
        page = await read(viewer, PAGE)
        [first, second, third] = lines_of(page)
        assert (first[: len(gone)], second, third) == (gone, asked, label)
        assert f'href="/app/default/images?name={quote(ODD, safe="")}"' in page
        assert "Dead letters" not in words(page)
        assert "only=upkeep" not in page
        assert "data-every" not in page, "what viewers are told of is told live"

        assert "bob · Ada invited bob as viewer." in await lines(admin)
        assert (await lines(admin, "?only=upkeep"))[0].startswith("bob")
        assert await lines(viewer, "?only=upkeep") == []
        assert await lines(viewer, "?only=classification") == [label]
        assert len(await lines(viewer, "?only=classification,approvals")) == 2
        inner = await lines(viewer, "?inner=true&only=classification")
        assert inner == [f"{ODD} · The picture was looked at.", label]
        assert "Ada invited" not in str(await lines(viewer, "?inner=true&subject=user:bob"))
        assert len(await lines(admin, "?subject=user:bob")) == 1
        assert await lines(viewer, f"?q={quote(ODD)}") == [label]
        assert await lines(viewer, "?q=nobody.jpg") == []
        for bad in ("only=nothing", "before=1&after=1", "at=yesterday", "q=%00", "before=-1"):
            await read(viewer, f"{PAGE}?{bad}", 422)


async def test_places_in_a_long_history(app: Application) -> None:
    for hour in range(3):
        names = [f"{hour}-{n}.jpg" for n in range(120)]
        await tell(app, *(labelled(name, f"L{n}") for n, name in enumerate(names)), at=hour * HOUR)
    # The first start has told of itself now.
    async with browser(app) as client:
        page = await read(client, PAGE + "?only=classification")
        assert len(lines_of(page)) == 100
        assert "100 images were labelled" in words(page)
        assert (lines_of(page)[0][:9], lines_of(page)[-1][:8]) == ("2-119.jpg", "2-20.jpg")
        older = html.unescape(re.search(r'data-verb="older" href="([^"]+)"', page)[1])  # type: ignore[index]
        page = await read(client, older)
        assert lines_of(page)[0].startswith("2-19.jpg")
        assert "data-lines" not in page, "only the newest end goes on by itself"
        newer = html.unescape(re.search(r'rel="prev" href="([^"]+)"', page)[1])  # type: ignore[index]
        assert lines_of(await read(client, newer))[-1].startswith("2-20.jpg")

        # By a reader's clock an hour ahead of UTC.
        there = await client.get(PAGE, params={"at": "1970-01-01T02:00", "zone": -60})
        assert there.status_code == 303
        assert there.headers["location"].endswith("#moment")
        page = await read(client, there.headers["location"])
        assert 'id="moment"' in page
        shown = lines_of(page)
        assert [
            shown.index(next(x for x in shown if x.startswith(y))) for y in ("1-19.", "0-119.")
        ] == [
            0,
            20,
        ]
        assert "Back to now" in words(page)


async def test_what_is_new_comes_line_by_line(app: Application) -> None:
    _, newest = await feed.bounds(app.db, "default")
    await tell(app, *(labelled(f"{n}.jpg") for n in range(130)))
    async with browser(app) as client:
        seen: list[str] = []
        for more in (True, False):
            fragment = (await client.get(f"{PAGE}/lines?after={newest}")).text
            assert ("data-more" in fragment) is more
            assert "flurry" not in fragment
            seen = lines_of(fragment) + seen
            newest = int(re.search(r'data-newest="(\d+)"', fragment)[1])  # type: ignore[index]
        assert [line.split(".")[0] for line in seen] == [str(n) for n in reversed(range(130))]
        nothing = (await client.get(f"{PAGE}/lines?after={newest}")).text
        assert f'data-newest="{newest}"' in nothing


async def test_an_upload_is_told_with_its_picture(database_url: str, tmp_path: Path) -> None:
    from submissions.pictures import photo

    async with application(database_url, tmp_path, worker=True) as app, browser(app) as client:
        files = {"file": ("cat.jpg", photo())}
        assert (await client.post("/api/upload", files=files)).status_code == 201

        async def is_told() -> bool:
            page = (await client.get(PAGE)).text
            return "Labelled" in page and "/thumbnail?size=320" in page

        await until(is_told)
        found = await lines(client, "?only=uploads")
        assert len(found) == 1, "who sent it and that it arrived are one line"
        assert re.match(r"cat\.jpg · The token “bootstrap” uploaded it \(", found[0])
        assert len(await lines(client, "?only=uploads&inner=true")) > 1
        assert "Labelled" in (await lines(client, "?q=cat"))[0]


# The feed, backwards and by time


async def test_backwards_is_forwards_turned_round(database: Database) -> None:
    rare, usual = ["upload_deleted", "approval_requested"], ["upload_stored"]
    async with Units(database, None, None).db.transaction() as connection:  # type: ignore[arg-type]
        for n in range(400):
            kind = random.choice([*rare, *usual, *(["run_attempt"] * 30)])
            await connection.execute(
                "SELECT activity_append($1, $2, $3)", random.choice(["a", "b"]), 10 * n,
                [{"subject": "upload:x", "type": kind}],
            )  # fmt: skip
    for types in (rare, usual, rare + usual, None):
        every = await feed.lines(database, "a", after=0, limit=1000, types=types)
        back: list[Activity] = []
        while found := await feed.earlier(
            database, "a", before=back[-1].seq if back else 2**62, limit=3, types=types
        ):
            back += found
        assert back == every[::-1]


async def test_a_moment_is_found_in_a_few_steps(database: Database, database_url: str) -> None:
    times = sorted(random.randrange(10**6) for _ in range(3000))
    await database.execute(
        """
        INSERT INTO activity (seq, organization, subject, type, at, data)
        SELECT 7 * n, CASE WHEN n % 3 = 0 THEN 'b' ELSE 'a' END, 'upload:x', 'upload_stored', at, '{}'
        FROM unnest($1::bigint[]) WITH ORDINALITY AS t (at, n)
        """,
        times,
    )
    every = await feed.lines(database, "a", after=0, limit=5000, types=None)
    for moment in (-1, 0, 10**7, *(random.randrange(10**6) for _ in range(40)), every[5].at):
        place = await feed.place_at(database, "a", moment)
        assert [x.seq for x in every if x.seq > place] == [x.seq for x in every if x.at >= moment]
    assert await feed.place_at(database, "nobody", 5) == 0
    await database.execute("ANALYZE activity")
    async with touching(database_url) as touched:
        await feed.place_at(touched.db, "a", times[1500])
        assert touched.pages < 200


# Pure


def happening(seq: int, at: int, kind: str = "classification_updated", tone: str = "") -> Happening:
    return Happening(seq, at, kind, said("x", tone=tone), "x", True, None, None)


def shape(rows: Any) -> list[str]:
    return [row.words if isinstance(row, Flurry) else str(row.seq) for row in rows]


def test_many_of_a_kind_are_told_as_one() -> None:
    five = [happening(20 - 2 * n, 1000) for n in range(5)]
    between = [happening(15, 1000, "upload_failed", "problem"), happening(11, 0)]
    ordered = sorted([*five, *between], key=lambda one: one.seq, reverse=True)
    assert shape(gathered(ordered)) == ["6 images were labelled", "15"]
    assert shape(gathered(ordered[:4])) == ["20", "18", "16", "15"]
    apart = [happening(9 - n, -n * 61_000) for n in range(6)]
    assert shape(gathered(apart)) == ["9", "8", "7", "6", "5", "4"]
    hours = by_hour([happening(3, 2 * HOUR + 5), happening(2, HOUR + 1), happening(1, HOUR)])
    assert [(hour.at, len(hour.rows)) for hour in hours] == [(2 * HOUR, 1), (HOUR, 2)]
    assert iso(hours[0].at).startswith("1970-01-01T02:00")


def test_two_uploads_of_one_moment_keep_their_senders() -> None:
    def pair(seq: int, image: str, who: str) -> list[Activity]:
        facts = {"imageId": image, "name": f"{image}.jpg"}
        actor = {"actor": {"type": "user", "name": who}}
        return [
            Activity(seq, "image_uploaded", 1, facts | actor, f"image:{image}"),
            Activity(seq + 1, "upload_ingested", 1, facts, f"image:{image}"),
        ]

    found = told([*pair(1, "a", "ada"), *pair(3, "b", "bob")], inner=True)
    assert [line.data["actor"]["name"] for line in found] == ["bob", "ada"]


def test_every_type_belongs_to_a_topic() -> None:
    known = [*MESSAGES.types, *INNER, *FOR_ADMINS]
    assert [kind for kind in known if topic_of(kind) is None] == []
    assert set(MANY) <= set(known)
    assert topic_of("upload_delete_error") is next(t for t in TOPICS if t.key == "deletions")


def test_an_address_says_what_was_chosen() -> None:
    chosen = StreamFilter(q="a b").toggled("uploads").toggled("approvals").with_inner(True)
    assert chosen.query(before=7) == "?only=uploads%2Capprovals&inner=true&q=a+b&before=7"
    assert chosen.toggled("uploads").only == ("approvals",)
    assert StreamFilter().query() == ""
