"""Submitting, waiting and deciding: the pages move by themselves. The tests tell one story, in order."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import PATIENCE, Visit, load
from conftest import reachable_directory
from harness import Server, eventually, picture, running
from submissions.pictures import photo

LIST, WORKFLOW = "/app/default/submissions", "/app/default/workflow"
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
    assert server.upload(content, name).status_code == 201
    with server.client() as client:
        content_of = f"/api/organizations/default/uploads/{name}/content"
        eventually(lambda: client.get(content_of).status_code == 200)


def submit(page: Page, name: str, title: str) -> None:
    page.goto(LIST)
    page.get_by_label("Image").fill(name)
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
    assert page.evaluate("() => window.stayed"), "it was not loaded anew"


def test_the_same_picture_again_asks_a_person(visit: Visit, server: Server) -> None:
    stored(server, "again.jpg", photo())
    workflow = visit(WORKFLOW)
    expect(workflow.get_by_text("Nothing waits for a decision")).to_be_visible()
    page = visit("/")
    submit(page, "again.jpg", "The same cat")
    in_state(page, "AWAITING_APPROVAL")
    approval = workflow.locator(".approval", has_text="The same cat")
    expect(approval.locator("img")).to_be_visible()
    approval.get_by_role("button", name="Approve").click()
    expect(workflow.get_by_text("Nothing waits for a decision")).to_be_visible()
    expect(workflow.get_by_role("list", name="Decided")).to_contain_text("The same cat")
    in_state(page, "PUBLISHED")
    expect(page.get_by_role("list", name="Stages")).to_contain_text("Approval")


def test_news_do_not_disturb_who_is_typing(visit: Visit, server: Server) -> None:
    ask(server, "First question")
    page = visit(WORKFLOW)
    first = page.locator(".approval", has_text="First question")
    first.get_by_text("Reject…").click()
    reason = first.get_by_label("Why?")
    reason.fill("Half a rea")
    ask(server, "Second question")
    expect(page.locator(".approval")).to_have_count(2)
    expect(page.locator(".approval").first).to_contain_text("Second question")
    expect(reason).to_be_focused()
    reason.press_sequentially("son")
    reason.press("Enter")
    decided = page.get_by_role("list", name="Decided")
    expect(decided).to_contain_text("Half a reason")


def ask(server: Server, title: str) -> None:
    with server.client() as client:
        client.post("/api/organizations/default/approvals", json={"title": title})


def test_the_list_follows_and_withdrawing_ends_it(visit: Visit, server: Server) -> None:
    stored(server, "plain.png", picture("PNG", colour="teal"))
    listed = visit(LIST)
    page = visit("/", java_script_enabled=False)
    submit(page, "plain.png", "A plain thing")
    entry = listed.locator(".entry", has_text="A plain thing")
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
