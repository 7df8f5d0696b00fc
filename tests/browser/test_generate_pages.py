"""Pictures and clips are asked for, seen to come, made again, kept in order and deleted. The tests tell
one story, in order."""

import re

import pytest
from playwright.sync_api import Page, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit
from harness import Server, eventually

GENERATE, LIBRARY = "/app/default/generate", "/app/default/library"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((one) => (window.shifted += one.value)))
    .observe({ type: "layout-shift", buffered: false });
}"""
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def prompt(page: Page) -> None:
    """The field, by its key."""
    page.keyboard.press("n")
    expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()


def band_of(page: Page) -> str:
    """The id of what was just asked for."""
    page.wait_for_url(re.compile("#"))
    return page.url.rpartition("#")[2]


def order(server: Server, **wanted: object) -> str:
    with server.client() as client:
        answer = client.post("/generations", json={"model": "studio/horizon", **wanted})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])


def contents(server: Server, generation_id: str) -> list[bytes]:
    with server.client() as client:
        tasks = client.get(f"/generations/{generation_id}").json()["tasks"]
        return [client.get(f"/artifacts/{one['artifactId']}/content").content for one in tasks]


def test_four_come_one_by_one_and_once_more(visit: Visit, server: Server) -> None:
    begun = order(server, input={"prompt": "x", "width": 384, "height": 256, "delaySeconds": 0})
    page = visit(f"{GENERATE}?from={begun}", viewport=DESK, reduced_motion="reduce")
    assert look(page) == []
    expect(page.get_by_role("combobox", name="Size")).to_have_value("384x256")
    page.get_by_role("textbox", name="Prompt").fill("")
    page.locator("body").click(position={"x": 5, "y": 5})
    prompt(page)
    page.keyboard.type("a lighthouse at dusk, n and ?")
    page.get_by_role("spinbutton", name="How many").fill("4")
    page.get_by_role("textbox", name="Tags").fill("coast")
    page.get_by_role("textbox", name="Prompt").press("Control+Enter")
    made_id = band_of(page)
    band = page.locator(f".band[id='{made_id}']")
    tiles = band.locator(".made")
    expect(tiles).to_have_count(4)
    page.evaluate(SHIFTS)
    box = tiles.nth(3).bounding_box()
    assert box
    assert box["width"] / box["height"] == pytest.approx(1.5, rel=0.01), "its room is there"
    expect(band.get_by_role("status")).to_contain_text("gives up in")
    # The first is there while others are still to come.
    expect(band.locator(".made[data-status=ready]").first).to_be_visible()
    expect(band.locator(".made[data-status=ready] img")).to_have_count(4)
    expect(band).to_have_attribute("data-state", "ready")
    for picture in band.locator("img").all():
        picture.scroll_into_view_if_needed()
        eventually(lambda: picture.evaluate("image => image.naturalWidth") == 320)  # noqa: B023
    assert page.evaluate("() => window.shifted") < 0.02
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []

    band.get_by_role("button", name="Again with this seed").click()
    page.wait_for_url(lambda url: made_id not in url)
    again_id = page.url.rpartition("#")[2]
    expect(page.locator(f".band[id='{again_id}']")).to_have_attribute("data-state", "ready")
    assert contents(server, again_id) == contents(server, made_id)
    page.locator(f".band[id='{made_id}']").get_by_role("link", name="Edit").click()
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value(
        "a lighthouse at dusk, n and ?"
    )
    expect(page.get_by_role("textbox", name="Seed")).not_to_have_value("")


def test_calling_it_off(visit: Visit, server: Server) -> None:
    page = visit(GENERATE)
    slow = {"prompt": "slow", "delaySeconds": 600, "width": 64, "height": 64}
    band = page.locator(f".band[id='{order(server, input=slow, count=2)}']")
    expect(band.get_by_role("status")).to_contain_text("0 of 2")
    expect(band.locator(".made[data-status=submitted]")).to_have_count(2)
    band.get_by_text("Cancel", exact=True).click()
    expect(band.get_by_text("the others are not waited for")).to_be_visible()
    assert look(page) == []
    band.get_by_role("button", name="Cancel it").click()
    expect(band.locator(".made[data-status=failed]")).to_have_count(2)
    expect(band.locator(".made").first).to_contain_text("Cancelled")
    assert look(page) == []


def test_a_clip_plays(visit: Visit, server: Server) -> None:
    page = visit(GENERATE, viewport=DESK)
    short = {"prompt": "poppies", "width": 128, "height": 72, "duration": 0.4, "seed": 3}
    band = page.locator(f".band[id='{order(server, input=short, kind='video')}']")
    clip = band.locator("video")
    expect(clip).to_be_visible()
    clip.hover()
    eventually(lambda: clip.evaluate("video => video.currentTime > 0"))
    band.get_by_role("link", name="Details of clip 1").click()
    expect(page.get_by_text("Only still pictures can be published.")).to_be_visible()
    clip = page.locator("video")
    assert clip.evaluate("video => video.play().then(() => video.videoWidth)") == 128
    assert look(page) == []


def test_the_library_by_keys_tags_and_delete(visit: Visit, server: Server) -> None:
    page = visit(LIBRARY, viewport=DESK, reduced_motion="reduce")
    assert look(page) == []
    page.get_by_role("link", name="coast").click()
    tiles = page.get_by_role("list", name="Artifacts, newest first").get_by_role("link")
    expect(tiles).to_have_count(8)
    small = {"prompt": "late", "width": 64, "height": 64}
    order(server, input=small)
    expect(page.get_by_role("link", name="1 new ↑")).to_be_visible()
    expect(tiles).to_have_count(8)

    tiles.nth(1).click()
    page.wait_for_url(re.compile(r"library/[\w-]+\?tag=coast"))
    here = page.url
    expect(page.locator(".image-stage__open[data-shown]")).to_have_count(1)
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: url != here)
    page.keyboard.press("ArrowRight")
    page.wait_for_url(here)
    page.get_by_label("Add a tag").fill("night")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Take night off")).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert look(page) == []
    page.get_by_role("button", name="Take night off").click()
    expect(page.get_by_role("button", name="Take night off")).to_have_count(0)

    page.get_by_role("link", name="Publish", exact=True).last.click()
    page.get_by_label("Title").fill("A light")
    page.get_by_role("button", name="Ask to publish").click()
    publication = page.locator(".image-publication")
    expect(publication).to_have_attribute(
        "data-state", re.compile("PUBLISHED|AWAITING_APPROVAL|REJECTED")
    )
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: url.partition("#")[0] != here)
    doomed = page.url
    page.keyboard.press("Delete")
    toast = page.locator(".toast")
    expect(toast).to_contain_text("This picture is being deleted.")
    toast.get_by_role("button", name="Undo").click()
    page.mouse.move(5, 5)  # over the message, the time would stand still
    page.clock.install()
    page.keyboard.press("Delete")
    expect(toast).to_be_visible()
    page.clock.run_for(11_000)
    page.wait_for_url(lambda url: url != doomed)
    page.goto(doomed)
    expect(page.get_by_text("This artifact was deleted")).to_be_visible()
    assert look(page) == []
    page.goto(LIBRARY)
    expect(page.get_by_role("link", name="coast")).to_contain_text("7")


def test_on_a_phone_and_without_scripts(visit: Visit, console: Console) -> None:
    page = visit(GENERATE, viewport=PHONE, has_touch=True, reduced_motion="reduce")
    for path in (GENERATE, LIBRARY):
        page.goto(path)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert look(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    page.get_by_role("list", name="Artifacts, newest first").get_by_role("link").first.tap()
    page.wait_for_url(f"**{LIBRARY}/*")
    assert look(page) == []

    console.expected.append("422 (Unprocessable")
    plain = visit(GENERATE, java_script_enabled=False)
    plain.get_by_role("textbox", name="Prompt").fill("a meadow")
    plain.get_by_text("Bloom", exact=True).click()
    plain.get_by_role("textbox", name="Seed").fill("seven")
    plain.get_by_role("button", name="Generate").click()
    expect(plain.get_by_text("A seed is a whole number.")).to_be_visible()
    expect(plain.get_by_role("textbox", name="Seed")).to_have_value("seven")
    expect(plain.get_by_role("radio", name="Bloom")).to_be_checked()
    plain.get_by_role("textbox", name="Seed").fill("7")
    plain.get_by_role("spinbutton", name="How many").fill("1")
    plain.get_by_role("button", name="Generate").click()
    band = plain.locator(f".band[id='{band_of(plain)}']")
    expect(band).to_contain_text("seed 7")
