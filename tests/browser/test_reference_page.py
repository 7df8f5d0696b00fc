"""The reference in a browser: operations are found, unfolded and tried."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit
from harness import Server, eventually
from submissions.pictures import photo

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
UPLOAD = "upload_api_upload_post"
DELETE = "delete_api_organizations__org__uploads__name__delete"
MEMBERS = "list_members_api_organizations__org__members_get"
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def operation(page: Page, name: str) -> Locator:
    """Unfolded, as its address leaves it."""
    found = page.locator(f"[data-operation='{name}']")
    expect(found).to_have_attribute("open", "")
    return found


def field(where: Locator, name: str) -> Locator:
    return where.locator(f"form [name='{name}']")


def is_sound(page: Page) -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    width: int = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]  # type: ignore[index]


def test_found_by_keyboard_and_tried(visit: Visit, console: Console, tmp_path: Path) -> None:
    console.expected = ["status of 4"]
    page = visit("/reference", viewport=DESK, reduced_motion="reduce")
    is_sound(page)
    page.keyboard.press("/")
    expect(page.get_by_label("Find an operation")).to_be_focused()
    page.keyboard.type("GET members")
    expect(page.locator("[data-found]")).to_have_text("1 operation")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/reference/accounts#{MEMBERS}")

    members = operation(page, MEMBERS)
    members.get_by_role("button", name="Try it").press("Enter")
    expect(field(members, "org")).to_be_focused()
    expect(field(members, "org")).to_have_value("default")
    field(members, "limit").press("Enter")
    answer = members.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("200 OK · done")
    expect(answer.locator("pre")).to_contain_text('"username": "operator"')
    is_sound(page)
    field(members, "org").fill("elsewhere")
    members.get_by_role("button", name="Send GET").click()
    expect(answer).to_contain_text("404 Not Found · refused")
    expect(answer.locator(".notice--problem")).to_contain_text("nothing here")

    page.goto(f"/reference/ingest#{UPLOAD}")
    upload = operation(page, UPLOAD)
    upload.get_by_role("button", name="Try it").click()
    for content, words in ((photo("cat"), "201 Created"), (b"no picture", "400 Bad Request")):
        (tmp_path / "cat.jpg").write_bytes(content)
        field(upload, "file").set_input_files(tmp_path / "cat.jpg")
        upload.get_by_role("button", name="Send POST").click()
        expect(upload.get_by_role("region", name="Answer")).to_contain_text(words)


def test_a_picture_and_a_question_on_a_phone(
    visit: Visit, server: Server, console: Console
) -> None:
    console.expected = ["status of 4"]
    assert server.upload(photo("cat"), "sleeping.jpg").status_code == 201
    with server.client() as client:
        there = "/api/organizations/default/uploads/sleeping.jpg/content"
        eventually(lambda: client.get(there).is_success)
    page = visit("/reference/library", viewport=PHONE, has_touch=True, reduced_motion="reduce")
    is_sound(page)
    page.get_by_text("All operations").tap()
    page.get_by_label("Find an operation").fill("original's bytes")
    page.get_by_role("link", name="GET The original's bytes").tap()
    content = page.locator("details.operation[open]")
    content.get_by_role("button", name="Try it").tap()
    field(content, "name").fill("sleeping.jpg")
    content.get_by_role("button", name="Send GET").tap()
    expect(content.locator("img")).to_be_visible()
    expect(content.get_by_role("link", name="Save it")).to_be_visible()
    is_sound(page)

    page.goto(f"/reference/library#{DELETE}")
    deleting = operation(page, DELETE)
    deleting.get_by_role("button", name="Try it").tap()
    field(deleting, "name").fill("none/of that.jpg")
    deleting.get_by_role("button", name="Send DELETE").tap()
    question = page.get_by_role("dialog", name="Delete for good?")
    expect(question).to_contain_text("none%2Fof%20that.jpg")
    is_sound(page)
    question.get_by_role("button", name="Leave it").tap()
    expect(question).to_be_hidden()
    expect(deleting.get_by_role("region", name="Answer")).to_have_count(0)
    deleting.get_by_role("button", name="Send DELETE").tap()
    question.get_by_role("button", name="Send DELETE").tap()
    expect(deleting.get_by_role("region", name="Answer")).to_contain_text("404")


def test_without_scripts_it_is_all_there(visit: Visit) -> None:
    page = visit("/reference/library", java_script_enabled=False, viewport=DESK)
    expect(page.get_by_label("Find an operation")).to_be_hidden()
    expect(page.get_by_role("button", name="Try it")).to_have_count(0)
    page.get_by_role("link", name=re.compile("^DELETE")).first.click()
    expect(page.locator("details.operation[open]")).to_contain_text("curl -X DELETE")
