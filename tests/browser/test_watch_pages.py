"""Watching: what happens comes by itself, waits while it is not wanted, and none of it is missed; and
what needs a person is dealt with. The tests tell one story, in order."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit
from conftest import reachable_directory
from harness import Server, await_ready, launch, picture, running
from submissions.pictures import photo

STREAM, LETTERS = "/app/default/inspector", "/app/default/inspector/dead-letters"
QUEUE, HEALTH = "/admin/queue", "/admin/health"
DESK = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
PHONE = {"viewport": {"width": 390, "height": 844}, "reduced_motion": "reduce", "has_touch": True}
EVENTS = "e" * 40
# The first check of a file fails once, and recovery looks only when asked.
SETTINGS = {
    "SAFELIGHT_EVENTS_TOKEN": EVENTS,
    "SAFELIGHT_FAILPOINTS": "submissions.tier1=raise@1",
    "SAFELIGHT_STALE_AFTER_SECONDS": "1",
    "SAFELIGHT_STUCK_AFTER_SECONDS": "1",
    "SAFELIGHT_RECOVERY_INTERVAL_SECONDS": "3600",
}
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with reachable_directory() as directory, running(directory / "data", **SETTINGS) as server:
        yield server


def upload(server: Server, name: str) -> None:
    assert server.upload(picture(), name).status_code == 201


def line(page: Page, text: str) -> Locator:
    return page.locator(".happening", has_text=text)


def fine(page: Page) -> None:
    """To axe, in both lights, and within the window."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    width = page.viewport_size["width"] if page.viewport_size else 0
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_two_windows_follow_pause_and_go_on(visit: Visit, server: Server) -> None:
    server.upload(photo(), "cat.jpg")
    page, other = visit(STREAM, **DESK), visit(STREAM)
    page.evaluate("() => (window.stayed = true)")
    expect(line(page, "Labelled").first.locator("img")).to_have_count(1)
    upload(server, "first.jpg")
    for window in (page, other):
        expect(line(window, "first.jpg").filter(has_text="uploaded it")).to_be_visible()

    page.keyboard.press("p")
    pause = page.get_by_role("button", name="Resume")
    expect(pause).to_have_attribute("aria-pressed", "true")
    shown = page.locator(".happening").count()
    upload(server, "second.jpg")
    expect(line(other, "second.jpg").filter(has_text="Labelled")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^[2-9] new$"))).to_be_visible()
    assert page.locator(".happening").count() == shown
    fine(page)
    page.keyboard.press("n")
    expect(line(page, "second.jpg").filter(has_text="Labelled")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "false")

    # Many of a kind become one that unfolds.
    for n in range(6):
        upload(server, f"many-{n}.jpg")
    flurry = page.locator(".flurry", has_text="images were labelled")
    expect(flurry.locator(".flurry__words")).to_have_text(re.compile(r"^\d+ images"))
    expect(line(page, "many-5.jpg").first).to_be_attached()
    flurry.locator("summary").press("Enter")
    expect(flurry.locator(".happening").first).to_be_visible()
    fine(page)
    assert page.evaluate("() => window.stayed"), "it was not loaded anew"

    # A page that follows for days does not grow.
    other.locator("activity-stream").evaluate("stream => (stream.dataset.most = 8)")
    older = other.get_by_role("link", name="Show what was before")
    expect(older).to_be_hidden()
    upload(server, "one-more.jpg")
    expect(line(other, "one-more.jpg").filter(has_text="Labelled")).to_have_count(1)
    expect(other.locator(".happening")).to_have_count(8)
    older.click()
    expect(line(other, "cat.jpg").filter(has_text="uploaded it")).to_be_visible()


def test_topics_names_and_times(visit: Visit, server: Server) -> None:
    del server
    page = visit(STREAM, **DESK, timezone_id="Asia/Tokyo")
    topics = page.get_by_role("navigation", name="What to show")
    topics.get_by_role("link", name="Classification").press("Enter")
    expect(page).to_have_url(re.compile("only=classification"))
    expect(line(page, "uploaded it")).to_have_count(0)
    expect(line(page, "Labelled").first).to_be_attached()
    page.get_by_label("Of what").fill("cat.jpg")
    page.keyboard.press("Enter")
    expect(line(page, "cat.jpg").first).to_be_visible()
    expect(line(page, "many-1.jpg")).to_have_count(0)
    page.get_by_role("link", name="cat.jpg").first.click()
    expect(page.get_by_role("heading", name="cat.jpg")).to_be_visible()

    page.goto(STREAM)
    moment = page.locator(".happening time").last.get_attribute("datetime")
    by_the_clock = page.evaluate(
        """(moment) => {
          const at = new Date(moment);
          const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
          return local.toISOString().slice(0, 16);
        }""",
        moment,
    )
    page.get_by_label("When").fill(by_the_clock)
    page.get_by_role("button", name="Go").click()
    expect(page.locator("#moment")).to_be_in_viewport()
    expect(page.get_by_role("link", name="Back to now")).to_be_visible()
    fine(page)


def test_nothing_is_missed_over_a_restart(visit: Visit, server: Server, console: Console) -> None:
    console.expected += ["ERR_CONNECTION", "WebSocket", "Failed to load resource"]
    page = visit(STREAM, **DESK)
    expect(page.locator("live-feed[data-state=live]")).to_have_count(1)
    page.evaluate("() => (window.stayed = true)")
    port = str(urlsplit(server.url).port)
    server.kill()
    expect(page.locator("live-feed")).to_contain_text("Reconnecting…")
    again = await_ready(launch(server.data_dir, "--port", port, environment=SETTINGS))
    server.process, server.lines = again.process, again.lines
    upload(server, "while-away.jpg")
    upload(server, "and-another.jpg")
    for name in ("while-away.jpg", "and-another.jpg"):
        expect(line(page, name).filter(has_text="uploaded it")).to_have_count(1)
        expect(line(page, name).filter(has_text="Labelled")).to_have_count(1)
    assert page.evaluate("() => window.stayed")


def test_dead_letters_in_groups(visit: Visit, server: Server) -> None:
    page, own = visit(QUEUE, **DESK), visit(LETTERS)
    expect(page.get_by_text("Nothing needs you.")).to_be_visible()
    fine(page)
    with server.client(EVENTS) as client:
        records = [{"eventName": "ObjectCreated:Put", "s3": {"object": {"key": n}}} for n in (1, 2)]
        answer = client.post("/api/events/objects", json={"Records": [*records, {"odd": 3}]})
    assert answer.json()["rejected"] == 3
    group = page.locator(".letters", has_text="Reading an event of the bucket").first
    expect(group.locator(".badge")).to_have_text(re.compile("[23]"))
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    expect(own.get_by_text("Nothing gave up")).to_be_visible()  # they are the system's own
    each = group.get_by_text("One by one")
    each.press("Enter")
    single = group.locator(".entry--letter")
    expect(single.first).to_be_visible()
    fine(page)
    before = page.locator("[data-key=as-of] time").get_attribute("datetime")
    expect(page.locator("[data-key=as-of] time")).not_to_have_attribute("datetime", str(before))
    expect(single.first).to_be_visible()  # it stays unfolded while the page follows
    group.get_by_text("Redrive all…").click()
    group.get_by_role("button", name="Redrive them").click()
    expect(page.get_by_text(re.compile(r"\d redriven, \d of those remain"))).to_be_visible()
    expect(page.locator(".letters").first).to_be_visible()  # they fail again
    page.get_by_text(re.compile("^Discard (all|it|everything)…$")).last.click()
    page.get_by_role("button", name=re.compile("^Discard (it|them)$")).last.click()
    expect(page.get_by_text(re.compile(r"\d discarded, \d of those remain"))).to_be_visible()


def test_a_stuck_submission_is_tried_now(visit: Visit, server: Server) -> None:
    with server.client() as client:
        wanted = {"source": {"upload": "cat.jpg"}, "title": "A cat at home"}
        made = client.post("/api/v1/submissions", json=wanted).json()
    page = visit(QUEUE, **DESK)
    stuck = page.get_by_role("list", name="Stuck submissions")
    expect(stuck).to_contain_text("A cat at home")
    expect(stuck.locator("img")).to_have_count(1)
    fine(page)
    stuck.get_by_role("button", name="Try now").click()
    page.goto(f"/submit/{made['id']}")
    expect(page.locator("live-region")).to_have_attribute("data-state", "PUBLISHED")


def test_on_a_phone_and_without_scripts(visit: Visit, server: Server) -> None:
    upload(server, "late.jpg")
    page = visit(STREAM, **PHONE)
    for path in (STREAM, LETTERS, QUEUE, HEALTH):
        page.goto(path)
        fine(page)
    expect(page.locator("[data-key=Database]")).to_contain_text("PostgreSQL")

    plain = visit(STREAM, java_script_enabled=False)
    expect(plain.locator(".happening", has_text="late.jpg").first).to_be_attached()
    plain.get_by_role("link", name="Inner events").click()
    expect(plain.locator(".happening", has_text="looked at").first).to_be_attached()
    plain.get_by_label("When (UTC)").fill("2020-01-01T00:00")
    plain.get_by_role("button", name="Go").click()
    expect(plain.locator("#moment")).to_be_attached()
    plain.get_by_role("link", name="Back to now").click()
    expect(plain.get_by_role("button", name="Pause")).to_be_hidden()
    plain.goto(QUEUE)
    expect(plain.get_by_text("kinds with nothing to do")).to_be_visible()
    expect(plain.get_by_role("link", name="Look again")).to_be_visible()
