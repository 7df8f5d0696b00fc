"""Deciding: one request at a time, by keys and buttons, alone and with another approver beside. The tests
tell one story, in order."""

from collections.abc import Iterator, Mapping

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit
from harness import Server, eventually
from submissions.pictures import photo

WORKFLOW = "/app/default/workflow"
APPROVALS = "/api/organizations/default/approvals"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def ask(api: httpx.Client, *titles: str) -> list[str]:
    made = [api.post(APPROVALS, json={"title": title}) for title in titles]
    return [answer.json()["id"] for answer in made]


def status(api: httpx.Client, request: str) -> str:
    return str(api.get(f"{APPROVALS}/{request}").json()["status"])


def awaited(api: httpx.Client, request: str, wanted: str) -> None:
    eventually(lambda: status(api, request) == wanted)


def current(page: Page) -> Locator:
    return page.locator(".request[data-current]")


def shown(page: Page, title: str) -> None:
    """And its buttons are awake."""
    expect(current(page).locator(".request__title")).to_have_text(title)
    expect(current(page)).not_to_have_attribute("data-inert", "")


def counted(page: Page, words: str) -> None:
    expect(page.locator(".desk-way__count")).to_have_text(words)


def past(page: Page) -> None:
    """The time in which it could have been taken back."""
    page.mouse.move(5, 5)  # over the message, the time would stand still
    page.clock.run_for(6_000)


def clear(api: httpx.Client) -> None:
    for one in api.get(APPROVALS).json()["items"]:
        api.post(f"{APPROVALS}/{one['id']}/approve")


def test_a_twin_beside_and_keys_alone(visit: Visit, server: Server, api: httpx.Client) -> None:
    for name in ("first", "second"):
        assert server.upload(photo(), f"{name}.jpg").status_code == 201
        source = {"source": {"upload": f"{name}.jpg"}, "title": f"The {name} cat"}
        path = eventually(lambda: submit(api, source))  # noqa: B023
        eventually(lambda: api.get(path).json()["state"] in {"PUBLISHED", "AWAITING_APPROVAL"})  # noqa: B023
    _, third = ask(api, "A question", "Another")
    page = visit(WORKFLOW, viewport=DESK, reduced_motion="reduce")
    shown(page, "The second cat")
    counted(page, "1 of 3")
    pictures = current(page).locator(".request__picture img")
    expect(pictures).to_have_count(2)
    for picture in pictures.all():
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("image => image.naturalWidth") > 0
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []

    page.clock.install()
    page.keyboard.press("j")
    counted(page, "2 of 3")
    page.keyboard.press("ArrowLeft")
    counted(page, "1 of 3")
    page.clock.run_for(1_000)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys of this page")).to_contain_text("Undo")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.keyboard.type("a reason")  # an a is a letter here
    assert look(page) == []
    page.keyboard.press("Escape")
    expect(current(page).locator(".question[open]")).to_have_count(0)
    page.keyboard.press("r")
    page.keyboard.press("Enter")
    toast = page.locator(".toast")
    expect(toast).to_contain_text("Rejected: The second cat")
    counted(page, "1 of 2")
    shown_by_keys(page, "A question")
    page.keyboard.press("u")
    expect(toast).to_have_count(0)
    shown_by_keys(page, "The second cat")
    page.keyboard.press("a")
    shown_by_keys(page, "A question")
    past(page)
    with server.client() as client:
        eventually(lambda: client.get(path).json()["state"] == "PUBLISHED")

    page.goto(f"{WORKFLOW}#{third}")
    shown(page, "Another")


def submit(api: httpx.Client, source: Mapping[str, object]) -> str | None:
    answer = api.post("/api/v1/submissions", json=source)
    return f"/api/v1/submissions/{answer.json()['id']}" if answer.is_success else None


def shown_by_keys(page: Page, title: str) -> None:
    expect(current(page).locator(".request__title")).to_have_text(title)
    page.clock.run_for(700)


def test_two_quick_clicks_decide_one(visit: Visit, api: httpx.Client) -> None:
    clear(api)
    one, two = ask(api, "Number one", "Number two")
    page = visit(WORKFLOW, viewport=DESK)
    shown(page, "Number one")
    box = current(page).get_by_role("button", name="Approve").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(*middle)
    page.wait_for_timeout(300)  # under test: a hand that was too quick
    page.mouse.click(*middle)
    shown(page, "Number two")
    expect(page.locator(".toast")).to_have_count(1)
    page.goto("/")  # leaving sends what was decided
    awaited(api, one, "approved")
    assert status(api, two) == "pending"
    page.goto(f"{WORKFLOW}#{one}")
    expect(page.get_by_text("Number one is approved already by operator")).to_be_visible()
    shown(page, "Number two")


def test_news_do_not_disturb_who_is_typing(visit: Visit, api: httpx.Client) -> None:
    clear(api)
    (first,) = ask(api, "First question")
    page = visit(WORKFLOW, viewport=DESK)
    shown(page, "First question")
    page.keyboard.press("r")
    page.keyboard.type("Half a rea")
    (second,) = ask(api, "Second question")
    counted(page, "1 of 2")
    page.keyboard.type("son")
    page.keyboard.press("Enter")
    shown(page, "Second question")
    api.post(f"{APPROVALS}/{second}/approve")
    expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
    page.goto("/")
    awaited(api, first, "rejected")
    assert api.get(f"{APPROVALS}/{first}").json()["reason"] == "Half a reason"


@pytest.fixture
def ben(browser: Browser, server: Server, api: httpx.Client) -> Iterator[BrowserContext]:
    """Another approver."""
    made = api.put("/api/organizations/default/members/ben", json={"role": "approver"})
    context = browser.new_context(
        base_url=server.url, viewport=ViewportSize(width=1440, height=900)
    )
    page = context.new_page()
    page.goto(made.json()["signInLink"])
    page.get_by_role("button", name="Accept").click()
    page.close()
    yield context
    context.close()


def test_two_approvers_at_once(
    visit: Visit, api: httpx.Client, ben: BrowserContext, console: Console
) -> None:
    console.expected.append("409 (Conflict)")
    clear(api)
    one, two, three = ask(api, "Alpha", "Beta", "Gamma")
    mine = visit(WORKFLOW, viewport=DESK)
    shown(mine, "Alpha")
    his = ben.new_page()
    his.goto(WORKFLOW)
    shown(his, "Alpha")
    his.clock.install()
    his.keyboard.press("a")
    shown_by_keys(his, "Beta")
    past(his)
    expect(mine.locator(".toast")).to_contain_text("Ben approved “Alpha” just now.")
    shown(mine, "Beta")
    assert status(api, one) == "approved"
    counted(mine, "1 of 2")

    # Both decide, and his is sent first.
    mine.keyboard.press("a")
    shown(mine, "Gamma")
    his.keyboard.press("r")
    current(his).get_by_label("It is published already.").check()
    current(his).get_by_role("button", name="Reject it").click()
    past(his)
    told = mine.locator(".toast", has_text="your approval did not count")
    expect(told).to_contain_text("Beta: Ben rejected it meanwhile")
    assert status(api, two) == "rejected"
    assert status(api, three) == "pending"
    ask(api, "Delta")
    counted(mine, "1 of 2")
    mine.keyboard.press("j")
    shown(mine, "Delta")


def test_many_at_once_and_undo(visit: Visit, api: httpx.Client, console: Console) -> None:
    console.expected.append("409 (Conflict)")
    clear(api)
    ids = ask(api, *(f"Number {number}" for number in range(6)))
    page = visit(WORKFLOW, viewport=DESK)
    page.get_by_role("link", name="As a list").click()
    page.clock.install()
    page.get_by_label("All").check()
    expect(page.locator(".bulk__count")).to_have_text("6 chosen")
    assert look(page) == []
    (late,) = ask(api, "A late one")
    expect(page.get_by_label("Choose A late one")).not_to_be_checked()
    expect(page.locator(".bulk__count")).to_have_text("6 chosen")
    api.post(f"{APPROVALS}/{late}/approve")
    page.get_by_label("Choose Number 5").uncheck()
    page.get_by_role("button", name="Approve").click()
    rows = page.locator(".publication:visible")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(6)
    page.get_by_role("button", name="Approve").click()
    api.post(f"{APPROVALS}/{ids[0]}/reject", json={"reason": "No."})
    past(page)
    said = page.locator(".toast", has_text="4 approved. 1 had been decided by somebody else.")
    expect(said).to_be_visible()
    assert [status(api, one) for one in ids] == ["rejected", *["approved"] * 4, "pending"]
    page.get_by_role("link", name="Rejected").click()
    expect(page.get_by_role("list", name="Rejected")).to_contain_text("No.")
    assert look(page) == []


def test_on_a_phone_in_the_dark_and_without_scripts(visit: Visit, api: httpx.Client) -> None:
    clear(api)
    (long,) = ask(api, "W" * 180)
    page = visit(WORKFLOW, viewport=PHONE, has_touch=True, color_scheme="dark")
    shown(page, "W" * 180)
    current(page).get_by_text("Reject…").tap()
    for path in (None, f"{WORKFLOW}?view=list", f"{WORKFLOW}?status=approved"):
        if path:
            page.goto(path)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"], path
        assert look(page) == []
    plain = visit(f"{WORKFLOW}#{long}", java_script_enabled=False)
    plain.get_by_text("Reject…").click()
    plain.get_by_label("The picture is not good enough.").check()
    plain.get_by_role("button", name="Reject it").click()
    expect(plain.get_by_text("Nothing waits for a decision")).to_be_visible()
    assert api.get(f"{APPROVALS}/{long}").json()["reason"] == "The picture is not good enough."
    empty = visit(WORKFLOW)
    expect(empty.get_by_text("Nothing waits for a decision")).to_be_visible()
    assert look(empty) == []
    ask(api, "The next one")
    shown(empty, "The next one")
