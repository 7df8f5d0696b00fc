"""The library, used as people use it. The tests tell one story, in order, in one library."""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from playwright.sync_api import Locator, Page, Response, WebSocketRoute, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit
from harness import Server, await_ready, eventually, launch, picture

PHOTOS = Path(__file__).parents[1] / "photos"
LIBRARY, API = "/app/default/upload", "/api/organizations/default/uploads"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
MEASURE = """() => {
  window.shifted = 0;
  const watch = (type, note) =>
    new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type });
  watch("layout-shift", (entry) => (window.shifted += entry.value));
}"""
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def shot(page: Page, name: str) -> Locator:
    return page.locator(f'.shot[data-name="{name}"]')


def labelled(page: Page, *names: str) -> None:
    for name in names:
        expect(shot(page, name)).to_have_attribute("data-state", "labelled")


def send(server: Server, *names: str) -> None:
    for name in names:
        photo = PHOTOS / name
        content = photo.read_bytes() if photo.exists() else picture()
        assert server.upload(content, name).status_code == 201


def classified(server: Server, *names: str) -> None:
    with server.client() as client:
        for name in names:
            path = f"{API}/{name}"
            eventually(lambda: client.get(path).json().get("classificationStatus") == "done")  # noqa: B023


def database(server: Server, work: Callable[[Any], Awaitable[Any]]) -> None:
    """On a connection of its own, in a thread: here is Playwright's loop."""

    async def connected() -> None:
        connection = await asyncpg.connect((server.data_dir / "database.url").read_text().strip())
        try:
            await work(connection)
        finally:
            await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(connected()))
    thread.start()
    thread.join()


def sound(page: Page) -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []


def focused(page: Page) -> str:
    name: str = page.evaluate("() => document.activeElement.closest('.shot')?.dataset.name ?? ''")
    return name


def test_before_the_first_image(visit: Visit) -> None:
    for size in (DESK, PHONE):
        page = visit(viewport=size, reduced_motion="reduce")
        expect(page.get_by_text("No images yet")).to_be_visible()
        expect(page.get_by_text("Nothing matches")).to_be_hidden()
        sound(page)


def test_by_pointer(visit: Visit, server: Server) -> None:
    page = visit(viewport=DESK, reduced_motion="reduce")
    send(server, "cat.jpg", "coffee.jpg", "daisy.jpg")
    labelled(page, "cat.jpg", "coffee.jpg", "daisy.jpg")
    expect(page.get_by_text("No images yet")).to_be_hidden()
    expect(page.locator(".library-count")).to_contain_text("3")
    expect(page.locator("[data-news]")).not_to_be_empty()
    picture_of = shot(page, "daisy.jpg").locator("img")
    expect(picture_of).to_have_js_property("naturalWidth", 320)
    expect(page.get_by_role("heading", name="Today")).to_be_visible()
    widths = page.locator(".shot").evaluate_all("all => all.map((one) => one.offsetHeight)")
    assert all(200 <= height <= 240 for height in widths)
    sound(page)

    words = shot(page, "daisy.jpg").locator(".shot__words")
    expect(words).to_have_css("opacity", "0")
    shot(page, "daisy.jpg").hover()
    expect(words).to_have_css("opacity", "1")
    expect(words).to_contain_text(re.compile(r"daisy.jpg.*\d+ %"))
    captions = page.get_by_role("button", name="Captions")
    captions.click()
    expect(captions).to_have_attribute("aria-pressed", "true")
    assert look(page) == []
    page.reload()
    expect(page.locator("image-grid[data-captions]")).to_have_count(1)
    captions.click()

    page.locator("summary", has_text="Label").click()
    assert look(page) == []
    menu = page.locator(".chip__menu", has_text="Label")
    menu.get_by_role("link", name=re.compile(r"Espresso\s+1")).click()
    expect(page.locator(".shot")).to_have_count(1)
    expect(page.locator(".library-count")).to_contain_text("1")
    sound(page)
    shot(page, "coffee.jpg").click()
    page.wait_for_url(re.compile("/images/.*label=ESPRESSO"))
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/upload\?label=ESPRESSO"))
    page.get_by_role("link", name="Any label").last.click()
    expect(page.locator(".shot")).to_have_count(3)

    page.locator("#q").press_sequentially("dai")
    expect(page.locator(".shot")).to_have_count(1)
    expect(page.locator(".library-count")).to_contain_text("1")
    assert page.url.endswith("?q=dai")
    page.locator("#q").fill("zebra")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    assert look(page) == []


def test_by_keyboard(visit: Visit, server: Server) -> None:
    page = visit(viewport=DESK, reduced_motion="reduce")
    labelled(page, "cat.jpg", "coffee.jpg", "daisy.jpg")
    page.locator(".shot a").first.focus()
    first = focused(page)
    page.keyboard.press("ArrowRight")
    middle = focused(page)
    page.keyboard.press("x")
    page.keyboard.press("Shift+ArrowRight")
    last = focused(page)
    assert {first, middle, last} == {"cat.jpg", "coffee.jpg", "daisy.jpg"}
    expect(page.get_by_text("2 selected")).to_be_visible()
    sound(page)
    page.keyboard.press("Escape")
    expect(page.locator("selection-bar[data-open]")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys of this page")).to_contain_text("Select it")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()

    shot(page, middle).locator("a").focus()
    page.keyboard.press("Delete")
    expect(shot(page, middle)).to_have_count(0)
    assert focused(page) == last, "the focus goes to a neighbour"
    page.locator(".toast").get_by_role("button", name="Undo").press("Enter")
    expect(shot(page, middle)).to_have_count(1)
    assert focused(page) == middle
    with server.client() as client:
        assert client.get(f"{API}/{middle}").status_code == 200
    page.keyboard.press("Enter")
    page.wait_for_url("**/images/**")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**{LIBRARY}")
    expect(shot(page, middle).locator("a")).to_be_focused()


def test_selecting(visit: Visit, server: Server) -> None:
    page = visit(viewport=PHONE, has_touch=True, reduced_motion="reduce")
    names = [f"pick-{number}.jpg" for number in range(4)]
    send(server, *names)
    labelled(page, *names)
    page.get_by_role("button", name="Select day").tap()
    expect(page.get_by_text("7 selected")).to_be_visible()
    sound(page)
    page.get_by_role("button", name="Clear the selection").tap()
    page.locator(".shot").nth(0).locator("input").tap()
    page.locator(".shot").nth(2).locator("a").click(modifiers=["Shift"])
    expect(page.get_by_text("3 selected")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").tap()
    assert download.value.suggested_filename.endswith(".zip")
    page.get_by_role("button", name="Submit").tap()
    dialog = page.get_by_role("dialog", name="Submit for publication?")
    expect(dialog).to_contain_text("3 images are checked")
    sound(page)
    dialog.get_by_role("button", name="Submit").tap()
    expect(page.locator(".toast")).to_contain_text("3 images submitted")
    with server.client() as client:
        assert len(client.get("/api/v1/submissions").json()["items"]) == 3

    page.clock.install()
    shot(page, names[0]).locator("input").tap()
    page.get_by_role("button", name="Delete").tap()
    expect(shot(page, names[0])).to_have_count(0)
    page.clock.run_for(11_000)
    with server.client() as client:
        eventually(lambda: client.get(f"{API}/{names[0]}").status_code == 404)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_leaving_commits_what_was_deleted(visit: Visit, server: Server) -> None:
    page = visit()
    shot(page, "pick-1.jpg").locator("a").focus()
    page.keyboard.press("Delete")
    expect(page.locator(".toast")).to_be_visible()
    page.goto("/")
    with server.client() as client:
        eventually(lambda: client.get(f"{API}/pick-1.jpg").status_code == 404)


def test_without_scripts(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    expect(page.locator(".shot")).to_have_count(5)
    expect(page.get_by_role("heading", level=3)).to_have_count(1)
    page.fill("#q", "pick")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".shot")).to_have_count(2)
    page.locator("summary", has_text="Label").click()
    page.locator(".chip__menu").first.get_by_role("link").nth(1).click()
    expect(page.locator(".shot")).to_have_count(2)
    page.get_by_label("Select pick-2.jpg").check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename.endswith(".zip")
    page.goto(LIBRARY)
    page.get_by_role("link", name="cat.jpg").click()
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_role("heading", name="Images that look like this one")).to_be_visible()
    expect(page.locator(".shot")).to_have_count(4)


def test_what_looks_alike(visit: Visit) -> None:
    page = visit(f"{LIBRARY}?like=cat.jpg", viewport=DESK, reduced_motion="reduce")
    expect(page.locator(".shot")).to_have_count(4)
    sound(page)
    page.get_by_role("link", name="All images").click()
    expect(page.locator(".shot")).to_have_count(5)
    page.goto(f"{LIBRARY}/duplicates")
    sound(page)


def test_two_windows_agree(visit: Visit, server: Server) -> None:
    one, other = visit(), visit()
    labelled(one, "cat.jpg")
    send(server, "both.jpg")
    labelled(one, "both.jpg")
    labelled(other, "both.jpg")
    expect(other.locator(".shot").first).to_have_attribute("data-name", "both.jpg")
    send(server, "cat.jpg")  # again
    expect(other.locator(".shot").first).to_have_attribute("data-name", "cat.jpg")
    expect(shot(other, "cat.jpg")).to_have_count(1)
    labelled(other, "cat.jpg")
    shot(one, "both.jpg").locator("a").focus()
    one.keyboard.press("Delete")
    one.goto("/")
    expect(shot(other, "both.jpg")).to_have_count(0)


def test_filters_hold_for_what_comes_live(visit: Visit, server: Server) -> None:
    page = visit(f"{LIBRARY}?q=wanted")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    send(server, "other.jpg", "wanted.jpg")
    labelled(page, "wanted.jpg")
    expect(page.get_by_text("Nothing matches")).to_be_hidden()
    expect(shot(page, "other.jpg")).to_have_count(0)


def test_a_hundred_thousand(visit: Visit, server: Server) -> None:
    database(server, lambda connection: rows(connection, "row", 100_000, every=900_000))
    page = visit(viewport=DESK)
    expect(page.locator(".library-count")).to_contain_text("100,0")
    months = page.get_by_role("slider", name="Month")
    expect(months).to_be_visible()
    page.evaluate(MEASURE)
    months.focus()
    page.keyboard.press("End")
    expect(page.locator('[data-name^="row-"]').first).to_be_visible()
    oldest = str(months.get_attribute("aria-valuetext"))
    assert re.fullmatch(r"\w+ 20\d\d, [\d,]+ images", oldest)
    expect(page.get_by_role("heading", name=oldest.split(maxsplit=1)[0]).first).to_be_visible()
    page.keyboard.press("Home")
    expect(shot(page, "cat.jpg")).to_be_visible()

    page.mouse.move(700, 500)
    for _ in range(25):
        page.mouse.wheel(0, 1500)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
    assert page.locator(".shot").count() < 120
    assert page.evaluate("() => scrollY") > 3 * DESK["height"]
    assert page.evaluate("() => window.shifted") < 0.02

    deep = page.locator(".shot").nth(page.locator(".shot").count() // 2)
    deep.locator("a").focus()
    before, name = page.evaluate("() => scrollY"), focused(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/images**")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**{LIBRARY}")
    expect(shot(page, name).locator("a")).to_be_focused()
    expect(shot(page, name)).to_be_in_viewport()
    assert before > 0


def test_a_thousand_arrivals_move_nothing(visit: Visit, server: Server) -> None:
    page = visit(viewport=DESK, reduced_motion="reduce")
    expect(shot(page, "cat.jpg")).to_be_visible()
    page.mouse.move(700, 500)
    page.mouse.wheel(0, 4000)
    expect(shot(page, "cat.jpg")).to_have_count(0)
    expect(page.locator(".shot").nth(20)).to_be_attached()
    page.evaluate(MEASURE)
    seen = "() => [...document.querySelectorAll('.shot')].map((one) => [one.dataset.name, one.getBoundingClientRect().y])"
    before = dict(page.evaluate(seen))
    database(server, lambda connection: rows(connection, "arrival", 1_000, every=1, told=True))
    send(server, "last.jpg")  # the feed is looked at
    fresh = page.get_by_role("button", name="1,001 new ↑")
    expect(fresh).to_be_visible()
    sound(page)
    after = dict(page.evaluate(seen))
    assert {name: y for name, y in after.items() if name in before} == before
    assert page.evaluate("() => window.shifted") < 0.02
    fresh.click()
    labelled(page, "last.jpg")
    expect(page.locator('[data-name^="arrival-"]').first).to_be_visible()
    expect(fresh).to_be_hidden()
    assert page.evaluate("() => scrollY") == 0
    send(server, "watched.jpg")
    labelled(page, "watched.jpg")
    assert page.evaluate("() => window.shifted") < 0.02
    database(server, without_rows)


async def rows(connection: Any, prefix: str, count: int, *, every: int, told: bool = False) -> None:
    """Entries with labels, each so many milliseconds before the one before it, as a server that was
    busy for years would have made them."""
    await connection.execute("SET session_replication_role = replica")
    values = prefix, count, every
    await connection.execute(
        """
        INSERT INTO uploads (organization, name, event_time, source, idempotency_key, width, height,
                             classification_status, classification_label, classification_score)
        SELECT 'default', $1::text || '-' || n || '.jpg',
               (extract(epoch FROM now()) * 1000)::bigint - $3::bigint * n, 'test', 'key-' || n,
               300 + n * 7 % 300, 300, 'done', 'ROW', 0.9 FROM generate_series(1, $2::integer) AS n
        """,
        *values,
    )
    if told:
        await connection.execute(
            """
            INSERT INTO activity (seq, organization, subject, type, at, data)
            SELECT nextval('activity_seq'), 'default', 'upload:' || name, 'upload_ingested', event_time,
                   jsonb_build_object('name', name, 'imageId', name)
            FROM uploads WHERE organization = 'default' AND name LIKE $1 || '-%'
            """,
            prefix,
        )


async def without_rows(connection: Any) -> None:
    await connection.execute("SET session_replication_role = replica")
    await connection.execute("DELETE FROM uploads WHERE source = 'test'")


def test_without_a_socket_the_page_polls(visit: Visit, server: Server) -> None:
    page = visit("/")
    page.route_web_socket("**/live?*", refuse)
    page.goto(LIBRARY)
    expect(page.locator("live-feed")).to_have_attribute("data-state", "polling")
    expect(page.locator("live-feed")).to_be_empty()
    send(server, "polled.jpg")
    labelled(page, "polled.jpg")


def refuse(socket: WebSocketRoute) -> None:
    socket.close()


@pytest.mark.parametrize("width", [320, 768])
def test_nothing_is_wider_than_the_window(visit: Visit, server: Server, width: int) -> None:
    send(server, f"{'long-' * 20}{width}.jpg", f"{'W' * 120}{width}.jpg")
    page = visit(
        viewport={"width": width, "height": 700}, color_scheme="dark", reduced_motion="reduce"
    )
    labelled(page, f"{'W' * 120}{width}.jpg")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_every_page_is_quiet(visit: Visit, server: Server, console: Console) -> None:
    console.expected.append("the server responded with a status of 404")
    send(server, "quiet.jpg")
    page = visit()

    def hear(answer: Response) -> None:
        if answer.status not in {200, 303, 304, 404}:
            console.said.append(f"{answer.status} {answer.url}")

    page.on("response", hear)
    labelled(page, "quiet.jpg")
    for path in ("/", "/account/password", "/login", f"{LIBRARY}?q=quiet&status=done",
                 f"{LIBRARY}/delete?name=quiet.jpg", "/nowhere"):  # fmt: skip
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)


def test_a_session_that_ended_is_said_so(visit: Visit, console: Console) -> None:
    console.expected += ["WebSocket connection", "the server responded with a status of 401"]
    page = visit(locale="en-GB")  # in a window of its own
    expect(page.locator("live-feed")).to_have_attribute("data-state", "live")
    page.context.clear_cookies()
    page.evaluate(
        "() => document.body.append(document.querySelector('live-feed'))"
    )  # connects anew
    expect(page.get_by_role("link", name="Sign in again")).to_be_visible()


def test_live_goes_on_after_the_server_was_killed(
    visit: Visit, server: Server, console: Console
) -> None:
    """Last in the file: it replaces the server that the tests share."""
    console.expected += ["WebSocket connection", "net::ERR_"]
    page = visit()
    send(server, "before.jpg")
    labelled(page, "before.jpg")
    page.evaluate("() => (window.stayed = true)")
    server.kill()
    expect(page.locator("live-feed")).to_have_text("Reconnecting…")
    port = server.url.rpartition(":")[2]
    again = await_ready(launch(server.data_dir, "--port", port))
    server.process, server.lines = again.process, again.lines  # the fixture stops this one
    send(server, "after.jpg")
    labelled(page, "after.jpg")
    expect(page.locator("live-feed")).to_be_empty()
    expect(page.locator("live-feed")).to_have_attribute("data-state", "live")
    assert page.evaluate("() => window.stayed")
