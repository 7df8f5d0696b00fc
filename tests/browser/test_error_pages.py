"""Pages about what went wrong, and the choice of light or dark, in a browser."""

import pytest
from playwright.sync_api import Page, Route, expect

from browser.axe import look
from browser.conftest import PATIENCE, Console, Visit

SIZES = ({"width": 390, "height": 844}, {"width": 1440, "height": 900})
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def paper(page: Page) -> str:
    found: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return found


def test_an_address_that_is_not_there(visit: Visit, console: Console) -> None:
    console.expected = ["status of 404"]
    page = visit("/nowhere", reduced_motion="reduce")
    for who in ("signed in", "signed out"):
        if who == "signed out":
            page.context.clear_cookies()
            page.reload()
        for size in SIZES:
            page.set_viewport_size(size)  # type: ignore[arg-type]
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert look(page) == []
            assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
        expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    page.get_by_role("link", name="Sign in").click()
    page.wait_for_url("**/login")
    page = visit("/nowhere")
    page.get_by_role("link", name="Go to the library").click()
    page.wait_for_url("**/app/default/upload")


def test_what_is_away_is_looked_for_again(visit: Visit, console: Console) -> None:
    console.expected = ["status of 503"]
    page = visit("/reference", viewport=SIZES[1])
    asked: list[str] = []

    def away_once(route: Route) -> None:
        asked.append(route.request.resource_type)
        route.fulfill(status=503) if len(asked) == 1 else route.continue_()

    page.route("**/reference", away_once)
    page.clock.install()
    page.evaluate("""() => {
      window.stayed = true;
      document.querySelector(".page").innerHTML = "<try-again data-after='5'><p></p></try-again>";
    }""")
    again = page.locator("try-again")
    expect(again).to_have_text("Trying again in 5 s.")
    page.clock.run_for(5_000)
    expect(again).to_have_text("Trying again in 10 s.")
    page.clock.run_for(10_000)
    expect(page.get_by_role("heading", name="Who is calling")).to_be_visible()
    assert asked == ["fetch", "fetch", "document"]


def test_light_or_dark(visit: Visit) -> None:
    page = visit("/reference", viewport=SIZES[1], color_scheme="light", reduced_motion="reduce")
    light = paper(page)
    page.evaluate("() => (window.stayed = true)")
    page.get_by_label("Account of operator").click()
    with page.expect_response("**/account/theme") as answer:
        page.locator(".rail").get_by_role("button", name="Dark").click()
    assert answer.value.status == 204
    dark = paper(page)
    assert dark != light
    assert page.evaluate("() => window.stayed"), "it was not loaded anew"
    assert look(page) == []
    page.reload()
    assert paper(page) == dark
    page.emulate_media(color_scheme="dark")
    page.get_by_label("Account of operator").click()
    with page.expect_response("**/account/theme"):
        page.locator(".rail").get_by_role("button", name="Light").click()
    assert paper(page) == light
    assert look(page) == []

    plain = visit("/reference", viewport=SIZES[1], java_script_enabled=False, color_scheme="light")
    plain.get_by_label("Account of operator").click()
    plain.locator(".rail").get_by_role("button", name="Dark").click()
    plain.wait_for_url("**/reference")
    expect(plain.locator("html")).to_have_attribute("data-theme", "dark")
