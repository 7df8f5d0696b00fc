"""One image, looked at: it follows what happens, and is left, published and deleted by keys. The tests
tell one story, in order."""

import re

import pytest
from playwright.sync_api import Page, expect

from browser.axe import look
from browser.conftest import PATIENCE, Visit
from harness import Server, eventually
from submissions.pictures import photo

LIBRARY, PAGES = "/app/default/upload", "/app/default/images"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def upload(server: Server, name: str, of: str = "") -> str:
    """The address of its page."""
    answer = server.upload(photo(of or name), f"{name}.jpg")
    assert answer.status_code == 201
    return f"{PAGES}/{answer.json()['imageId']}"


@pytest.fixture(scope="module")
def images(server: Server) -> list[str]:
    """With labels, the oldest first: each is in the library before the next is sent."""
    pages = []
    with server.client() as client:
        for name in ("cat", "coffee", "daisy"):
            pages.append(upload(server, name))
            path = f"/api/organizations/default/uploads/{name}.jpg"
            eventually(lambda: client.get(path).json().get("classificationStatus") == "done")  # noqa: B023
    return pages


def in_state(page: Page, state: str) -> None:
    expect(page.locator("live-region")).to_have_attribute("data-state", state)


def picture(page: Page) -> None:
    """It is there, and what kept its place is gone."""
    expect(page.locator(".image-stage__open[data-shown]")).to_have_count(1)
    shown = page.locator(".image-stage__picture")
    assert shown.evaluate("image => image.naturalWidth") > 0
    for before in page.locator(".image-stage__before").all():
        expect(before).to_be_hidden()


def test_an_address_of_its_own_and_its_keys(visit: Visit, images: list[str]) -> None:
    oldest, middle, newest = images
    page = visit(LIBRARY, viewport=DESK, reduced_motion="reduce")
    page.goto(middle)
    picture(page)
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    expect(page.get_by_role("heading", level=1)).to_have_text("coffee.jpg")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(f"**{newest}")
    expect(page.locator("span.icon-link")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    page.wait_for_url(f"**{middle}")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(f"**{oldest}")
    picture(page)

    panel = page.get_by_role("complementary", name="About this image")
    page.keyboard.press("i")
    expect(panel).to_be_hidden()
    page.keyboard.press("i")
    expect(panel).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys of this page")).to_contain_text("older image")
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.keyboard.press("d")
    assert download.value.suggested_filename == "cat.jpg"
    panel.get_by_role("link", name="Show inner events").click()
    expect(panel.get_by_role("link", name="Show less")).to_be_visible()
    page.go_back()
    page.keyboard.press("Escape")
    page.wait_for_url(f"**{LIBRARY}")


def test_on_a_phone_and_in_the_dark(visit: Visit, images: list[str]) -> None:
    page = visit(images[1], viewport=PHONE, has_touch=True, reduced_motion="reduce")
    picture(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    verbs = page.get_by_role("navigation", name="What to do with it")
    box = verbs.bounding_box()
    assert box is not None
    assert box["y"] > PHONE["height"] / 2, "a thumb reaches it"
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    # Larger than the screen: a tap shows it pixel by pixel, and another all of it again.
    page.locator(".image-stage__open").tap()
    expect(page.locator("image-stage[data-zoomed]")).to_have_count(1)
    assert page.locator(".image-stage__picture").evaluate("image => image.offsetWidth") > 390
    page.keyboard.press("Escape")
    expect(page.locator("image-stage[data-zoomed]")).to_have_count(0)


def test_its_label_comes_by_itself(visit: Visit, server: Server, images: list[str]) -> None:
    del images
    page = visit(LIBRARY)
    page.goto(upload(server, "late", "daisy"))
    page.evaluate("() => (window.stayed = true)")
    in_state(page, "Labelled")
    expect(page.locator(".shares a").first).to_be_visible()
    expect(page.get_by_role("list", name="History, newest first")).to_contain_text("Labelled")
    picture(page)
    assert page.evaluate("() => window.stayed"), "it was not loaded anew"


def test_publishing_by_pointer_and_by_keyboard(visit: Visit, images: list[str]) -> None:
    page = visit(images[0])
    page.get_by_role("link", name="Publish", exact=True).last.click()
    page.get_by_label("Title").fill("A cat")
    page.get_by_role("button", name="Ask to publish").click()
    made = page.locator(".image-publication")
    expect(made).to_have_attribute("data-state", re.compile("PUBLISHED|AWAITING_APPROVAL"))
    expect(made).to_contain_text("A cat")

    page.goto(images[1])
    page.keyboard.press("p")
    expect(page.get_by_label("Title")).to_be_focused()
    page.keyboard.type("Coffee, i and d")
    page.keyboard.press("Enter")
    expect(made).to_have_attribute("data-state", "PUBLISHED")
    public = page.locator("#publish .copied a")
    expect(public).to_contain_text("/public/sub_")
    expect(page.get_by_role("button", name="Copy the public link")).to_be_visible()
    assert look(page) == []
    assert page.request.get(str(public.get_attribute("href"))).ok


def test_deleting_can_be_taken_back(visit: Visit, server: Server, images: list[str]) -> None:
    oldest, middle, newest = images
    page = visit(newest)
    page.keyboard.press("Delete")
    toast = page.locator(".toast")
    expect(toast).to_contain_text("daisy.jpg is being deleted.")
    toast.get_by_role("button", name="Undo").click()
    expect(page.locator("image-page[data-leaving]")).to_have_count(0)
    with server.client() as client:
        there = "/api/organizations/default/uploads/daisy.jpg"
        assert client.get(there).status_code == 200

        page.mouse.move(5, 5)  # over the message, the time would stand still
        page.clock.install()
        page.keyboard.press("Delete")
        expect(toast).to_be_visible()
        page.clock.run_for(11_000)
        page.wait_for_url(f"**{middle}")
        assert client.get(f"{there}/content").status_code == 404
    page.goto(newest)
    in_state(page, "Deleted")
    expect(page.get_by_text("This image was deleted.")).to_be_visible()
    assert look(page) == []

    plain = visit(oldest, java_script_enabled=False)
    expect(plain.locator(".image-stage__picture")).to_be_visible()
    plain.get_by_role("link", name="Delete").click()
    expect(plain.get_by_role("heading", name="Delete this image?")).to_be_visible()
