"""Every piece in every light: what axe has nothing against here, it has nothing against elsewhere."""

import pytest
from playwright.sync_api import expect

from browser.axe import look
from browser.conftest import PATIENCE, Visit

SIZES = ({"width": 390, "height": 844}, {"width": 1440, "height": 900})
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def test_all_pieces_in_every_light(visit: Visit) -> None:
    page = visit("/patterns", reduced_motion="reduce")
    for size in SIZES:
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert look(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]

    page.keyboard.press("t")
    toasts = page.locator(".toasts")
    expect(toasts).to_contain_text("The token is copied.")
    page.get_by_role("button", name="Show one with a way back").click()
    toasts.get_by_role("button", name="Undo").click()
    expect(toasts).to_contain_text("Kept.")
    page.get_by_role("button", name="Ask", exact=True).click()
    question = page.get_by_role("dialog", name="Delete this image?")
    expect(question.get_by_role("button", name="Leave it")).to_be_focused()
    assert look(page) == []
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
