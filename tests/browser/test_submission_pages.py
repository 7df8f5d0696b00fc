"""Submitting and waiting: the pages move by themselves. The tests tell one story, in order."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from browser.axe import look
from browser.conftest import PATIENCE, Visit, load
from conftest import reachable_directory
from harness import Server, eventually, picture, running
from submissions.pictures import photo

LIST, WORKFLOW = "/app/default/submissions", "/app/default/workflow"
APPROVALS = "/api/organizations/default/approvals"
# The first check of a file fails once, so the first submission waits for recovery.
STUMBLING = {
    "SAFELIGHT_FAILPOINTS": "submissions.tier1=raise@1",
    "SAFELIGHT_STALE_AFTER_SECONDS": "1",
    "SAFELIGHT_STUCK_AFTER_SECONDS": "5",
    "SAFELIGHT_RECOVERY_INTERVAL_SECONDS": "1",
}
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with reachable_directory() as directory, running(directory / "data", **STUMBLING) as server:
        yield server


def stored(server: Server, name: str, content: bytes) -> None:
    """And drawn."""
    assert server.upload(content, name).status_code == 201
    with server.client() as client:
        drawing = f"/api/organizations/default/uploads/{name}/thumbnail"
        eventually(lambda: client.get(drawing).status_code == 200)


def submit(page: Page, name: str, title: str) -> None:
    page.goto(LIST)
    page.get_by_role("link", name="Submit an image").click()
    page.get_by_role("radio", name=name).check(force=True)
    page.get_by_label("Title").fill(title)
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name=title)).to_be_visible()


def in_state(page: Page, state: str) -> None:
    expect(page.locator("live-region")).to_have_attribute("data-state", state)


def test_the_banner_comes_and_goes_and_it_is_published(visit: Visit, server: Server) -> None:
    stored(server, "cat.jpg", photo())
    page = visit("/")
    submit(page, "cat.jpg", "A cat at home")
    page.evaluate("() => (window.stayed = true)")
    banner = page.locator(".notice--stale")
    expect(banner).to_contain_text("in the check of the file")
    expect(banner).to_contain_text("The next automatic attempt is due")
    in_state(page, "PUBLISHED")
    expect(banner).to_have_count(0)
    expect(page.locator(".preview img")).to_have_js_property("complete", True)
    assert page.locator(".preview img").evaluate("image => image.naturalWidth") > 0
    expect(page.locator("[aria-current=step]")).to_contain_text("Published")
    link = page.get_by_role("complementary").get_by_role("link", name="/public/sub_")
    expect(page.get_by_role("button", name="Copy the public link")).to_be_visible()
    assert page.request.get(str(link.get_attribute("href"))).ok
    assert page.evaluate("() => window.stayed"), "it was not loaded anew"
    lights(page)
    page.goto(LIST)
    expect(page.get_by_role("link", name="/public/sub_")).to_have_count(1)
    lights(page)


def lights(page: Page) -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert look(page) == []


def test_the_same_picture_again_asks_a_person(visit: Visit, server: Server) -> None:
    stored(server, "again.jpg", photo())
    page = visit("/")
    submit(page, "again.jpg", "The same cat")
    in_state(page, "AWAITING_APPROVAL")
    expect(page.get_by_role("link", name="A cat at home")).to_be_visible()
    lights(page)
    with server.client() as client:
        (waiting,) = client.get(APPROVALS).json()["items"]
        client.post(f"{APPROVALS}/{waiting['id']}/reject", json={"reason": "Once is enough."})
    in_state(page, "REJECTED")
    failed = page.locator("[aria-current=step]")
    expect(failed).to_contain_text("Decision failed")
    expect(failed).to_contain_text("Once is enough.")
    lights(page)
    page.get_by_role("button", name="Submit it again").click()
    in_state(page, "AWAITING_APPROVAL")


def test_a_picture_is_found_while_typing(visit: Visit, server: Server) -> None:
    stored(server, "harbour at dawn.jpg", photo("coffee"))
    page = visit(f"{LIST}/new?upload=cat.jpg")
    lights(page)
    page.get_by_label("Title").fill("Kept")
    page.get_by_label("Search by words").press_sequentially("harb")
    picks = page.locator(".pick")
    expect(picks).to_have_count(2)  # what is chosen stays among what is found
    expect(page.get_by_role("radio", name="cat.jpg")).to_be_checked()
    page.get_by_role("radio", name="harbour at dawn.jpg").check(force=True)
    expect(page.get_by_label("Title")).to_have_value("Kept")
    page.get_by_label("Search by words").fill("nothing like it")
    expect(picks).to_have_count(1)
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="Kept")).to_be_visible()
    expect(page.get_by_role("link", name="harbour at dawn.jpg")).to_be_visible()


def test_the_list_follows_and_withdrawing_ends_it(visit: Visit, server: Server) -> None:
    stored(server, "plain.png", picture("PNG", colour="teal"))
    listed = visit(LIST)
    page = visit("/", java_script_enabled=False)
    submit(page, "plain.png", "A plain thing")
    entry = listed.locator(".publication", has_text="A plain thing")
    expect(entry).to_have_attribute("data-state", re.compile("PUBLISHED|AWAITING_APPROVAL"))
    page.get_by_text("Withdraw…").click()
    page.get_by_role("button", name="Withdraw it").click()
    expect(entry).to_have_attribute("data-state", re.compile("WITHDRAWN|REJECTED"))


def test_the_queue_page_refreshes_itself(visit: Visit, server: Server) -> None:
    page = visit("/admin/queue")
    expect(page.get_by_role("img", name=re.compile("Work per hour"))).to_be_visible()
    before = page.locator("[data-key=as-of] time").get_attribute("datetime")
    page.evaluate("() => (window.stayed = true)")
    expect(page.locator("[data-key=as-of] time")).not_to_have_attribute("datetime", str(before))
    expect(page.get_by_role("row", name=re.compile("Too slow"))).to_be_visible()
    assert page.evaluate("() => window.stayed")


def test_merging_keeps_what_belongs_to_the_reader(visit: Visit) -> None:
    old = """<details data-key="a"><summary>A</summary><input value="x"></details><p data-key="b">B</p>
      <copy-button><button>Copy</button></copy-button><p>last</p>"""
    fresh = """<p data-key="c" class="new">C</p><p data-key="b">B again</p>
      <details data-key="a"><summary>A</summary><input value="y"></details>
      <copy-button></copy-button>"""
    page = visit(LIST)
    load(page, "merge", "merge")
    result = page.evaluate(
        """([old, fresh]) => {
          const [mine, theirs] = [old, fresh].map((inner) =>
            Object.assign(document.createElement("div"), { innerHTML: inner }));
          document.body.append(mine);
          const [details, input, button] = ["details", "input", "button"].map((name) =>
            mine.querySelector(name));
          details.open = true;
          input.value = "typed";
          window.tested.merge(mine, theirs);
          const stayed = [details, input, button].every((part) => mine.contains(part));
          return [stayed, details.open, input.value, [...mine.children].map((one) =>
            one.dataset.key ?? one.localName).join(), mine.textContent.includes("last")];
        }""",
        [old, fresh],
    )
    assert result == [True, True, "typed", "c,b,a,copy-button", False]


def test_nothing_is_wider_than_the_window(visit: Visit, server: Server) -> None:
    stored(server, f"{'W' * 120}.png", picture("PNG", colour="navy"))
    page = visit(LIST, viewport={"width": 320, "height": 700}, color_scheme="dark")
    submit(page, f"{'W' * 120}.png", "M" * 150)
    for path in (page.url, LIST, WORKFLOW, "/admin/queue"):
        page.goto(path)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320, path
        expect(page.locator("h1")).to_have_count(1)
