"""From the printed link to the library, and what an organization and a person set for themselves. The
tests tell one story, in order."""

import re

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    StorageState,
    ViewportSize,
    expect,
)

from browser.axe import look
from browser.conftest import PATIENCE, Visit, sign_in_link
from harness import Server, eventually, picture

HERE = "/app/default/settings"
SECTIONS = (
    HERE,
    f"{HERE}/tokens",
    f"{HERE}/publishing",
    f"{HERE}/usage",
    f"{HERE}/spending",
    "/account",
)
LIMITS = "/api/v1/admin/organizations/default/quotas"
PASSWORD = "a few plain words"
DESK, PHONE = ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844)
LIBRARY = re.compile("/app/default/upload$")
SMALL_TARGETS = """() => [...document.querySelectorAll("main a, main button, main summary, main input, main select")]
  .filter((one) => one.checkVisibility() && !one.closest("p") && one.getBoundingClientRect().height < 43.9
    && !one.closest("copy-button") && !one.closest(".visually-hidden, [aria-hidden]"))
  .map((one) => one.outerHTML.slice(0, 120))"""
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def signed_in(browser: Browser, server: Server) -> StorageState:
    """Somebody who came by the printed link and chose a password on the way, by keyboard alone."""
    context = browser.new_context(viewport=DESK, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(sign_in_link(server))
    expect(page.get_by_role("button", name="Sign in as operator")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Choose a password")
    assert look(page) == []
    expect(page.get_by_role("link", name="Not now")).to_be_visible()
    page.get_by_label("New password").focus()
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(LIBRARY)
    state = context.storage_state()
    context.close()
    return state


def other_browser(browser: Browser, server: Server, **options: object) -> Page:
    """Somebody else's, for the test to close."""
    page = browser.new_context(base_url=server.url, **options).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE)
    return page


def item(page: Page, listed: str, words: str) -> Locator:
    return page.get_by_role("list", name=listed).get_by_role("listitem").filter(has_text=words)


def test_home_is_the_library_and_settings_are_in_the_rail(visit: Visit) -> None:
    page = visit("/")
    expect(page).to_have_url(LIBRARY)
    page.get_by_role("navigation", name="Upkeep").get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    page.get_by_label("Account of operator").click()
    page.get_by_role("link", name="Account", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("operator")


def test_a_token_is_made_by_keyboard_and_works(visit: Visit, server: Server) -> None:
    page = visit(f"{HERE}/tokens")
    page.get_by_label("Name").fill("")
    page.keyboard.type("camera")
    page.keyboard.press("Tab")
    page.keyboard.type("viewer")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Make a token").press("Enter")
    expect(page.get_by_role("heading", name="Your new token")).to_be_visible()
    secret = page.get_by_label("Token", exact=True).inner_text().strip()
    expect(page.get_by_label("Keep it in your shell")).to_contain_text(secret)
    assert look(page) == []
    me = httpx.get(f"{server.url}/api/me", headers={"authorization": f"Bearer {secret}"}).json()
    assert (me["name"], me["organizations"]) == ("camera", [{"id": "default", "role": "viewer"}])
    page.reload()
    expect(page.get_by_role("heading", name="Your new token")).to_have_count(0)
    row = item(page, "Tokens of default", "camera")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Used just now")
    row.get_by_text("Revoke", exact=True).press("Enter")
    row.get_by_role("button", name="Revoke the token").press("Enter")
    expect(row).to_contain_text("revoked just now")
    refused = httpx.get(f"{server.url}/api/me", headers={"authorization": f"Bearer {secret}"})
    assert refused.status_code == 401


def test_inviting_accepting_and_another_role(
    visit: Visit, browser: Browser, server: Server
) -> None:
    admin = visit(HERE)
    admin.get_by_label("Username").fill("dora")
    admin.get_by_label("Username").press("Enter")
    link = admin.get_by_label("Link", exact=True).inner_text().strip()
    expect(item(admin, "Invited", "dora")).to_contain_text("ends")

    dora = other_browser(browser, server, viewport=PHONE, has_touch=True, java_script_enabled=False)
    dora.goto(link)
    dora.get_by_role("button", name="Accept").tap()
    dora.get_by_label("New password").fill(PASSWORD)
    dora.get_by_role("button", name="Save password").tap()
    expect(dora).to_have_url(LIBRARY)
    dora.goto(HERE)
    expect(item(dora, "Members", "dora")).to_contain_text("member")
    expect(dora.get_by_text("Change", exact=True)).to_have_count(0)

    admin.reload()
    expect(admin.get_by_role("list", name="Invited")).to_have_count(0)
    row = item(admin, "Members", "dora")
    row.get_by_label("Change dora").click()
    row.get_by_label("Role", exact=True).select_option("admin")
    assert look(admin) == []
    row.get_by_role("button", name="Save the role of dora").click()
    expect(admin.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    dora.reload()
    expect(dora.get_by_label("Change operator")).to_be_visible()
    dora.context.close()


def test_signing_out_everywhere_ends_the_other_window(browser: Browser, server: Server) -> None:
    desk, phone = (
        other_browser(browser, server, viewport=size, user_agent=agent)
        for size, agent in (
            (DESK, "Mozilla/5.0 (Windows NT 10.0) Gecko/20100101 Firefox/132.0"),
            (PHONE, "Mozilla/5.0 (Linux; Android 14) Chrome/131.0 Mobile Safari/537.36"),
        )
    )
    for page in (desk, phone):
        page.goto("/account?x=1")
        assert look(page) == []
        page.get_by_label("Username").fill("dora")
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("The username or the password is wrong.")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/account\?x=1$"))
    where = desk.get_by_role("list", name="Where you are signed in")
    desk.reload()
    expect(where).to_contain_text("Firefox on Windows")
    expect(where).to_contain_text("Chrome on Android")
    desk.get_by_role("button", name="Sign out Chrome on Android").click()
    expect(where).not_to_contain_text("Chrome on Android")
    phone.reload()
    expect(phone.get_by_role("heading", level=1)).to_have_text("Sign in to Safelight")
    phone.get_by_label("Username").fill("dora")
    phone.get_by_label("Password").fill(PASSWORD)
    phone.keyboard.press("Enter")
    phone.get_by_text("Sign out everywhere", exact=True).first.click()
    phone.get_by_role("button", name="Sign out everywhere").last.click()
    expect(phone.get_by_role("heading", level=1)).to_have_text("Sign in to Safelight")
    desk.reload()
    expect(desk.get_by_role("heading", level=1)).to_have_text("Sign in to Safelight")
    desk.context.close()
    phone.context.close()


def test_leaving_without_a_password_is_asked_first(browser: Browser, server: Server) -> None:
    with server.client() as client:
        made = client.put("/api/organizations/default/members/emil", json={"role": "viewer"}).json()
    page = other_browser(browser, server, color_scheme="light")
    page.goto(made["signInLink"])
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("link", name="Not now").click()
    expect(page).to_have_url(LIBRARY)
    page.get_by_label("Account of emil").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign out without a password?")
    assert look(page) == []
    page.get_by_role("link", name="Set a password").click()
    page.get_by_role("link", name="Back to your account").click()
    expect(page.get_by_text("You have no password yet: set one, or")).to_be_visible()
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_show_what_is_used(visit: Visit, server: Server, scheme: str) -> None:
    image = picture()
    limits = {"storedBytes": 2 * len(image), "uploadsPerMinute": 0, "submissionsPerDay": 7}
    with server.client() as client:
        assert client.put(LIMITS, json=limits).status_code == 200
    assert server.upload(image, "one.jpg").status_code == 201
    eventually(lambda: _stored(server) == len(image))  # what it replaces counts until it does
    page = visit(f"{HERE}/usage", java_script_enabled=False, color_scheme=scheme, viewport=PHONE)
    card = page.get_by_role("list", name="What default uses")
    stored = card.get_by_role("meter", name="Stored")
    expect(stored).to_have_attribute("value", str(len(image)))
    expect(stored).to_have_attribute("max", str(2 * len(image)))
    box, around = stored.bounding_box(), card.bounding_box()
    assert box
    assert around
    assert 0.8 * around["width"] < box["width"] < around["width"]
    assert box["height"] == 8
    expect(card.get_by_role("meter", name="Uploads this minute")).to_have_count(0)
    expect(card).to_contain_text(", no limit")
    expect(card).to_contain_text("0 of 7")


def _stored(server: Server) -> int:
    with server.client() as client:
        quotas = client.get("/api/organizations/default/quotas").json()
    return int(quotas["storedBytes"]["used"])


def test_every_section_on_every_screen(
    browser: Browser, server: Server, signed_in: StorageState
) -> None:
    for size, touch in ((PHONE, True), (DESK, False)):
        context: BrowserContext = browser.new_context(
            base_url=server.url,
            storage_state=signed_in,
            viewport=size,
            has_touch=touch,
            is_mobile=touch,
            reduced_motion="reduce",
        )
        page = context.new_page()
        for path in SECTIONS:
            page.goto(path)
            for folded in page.locator("main details > summary").all():
                folded.click()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert look(page) == [], path
            assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"], (
                path
            )
            if touch:
                assert page.evaluate(SMALL_TARGETS) == [], path
        context.close()
