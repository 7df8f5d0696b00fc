"""One image, looked at: it follows what happens, and is left, published and deleted by keys."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.axe import look
from browser.conftest import PATIENCE, Visit
from harness import Server, eventually
from submissions.pictures import photo

LIBRARY, PAGES = "/app/default/upload", "/app/default/images"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PHOTOS = Path(__file__).parents[1] / "photos"
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


def upload(server: Server, name: str, content: bytes) -> str:
    """The address of its page."""
    answer = server.upload(content, name)
    assert answer.status_code == 201
    return f"{PAGES}/{answer.json()['imageId']}"


@pytest.fixture(scope="module")
def images(server: Server) -> list[str]:
    """Three with labels, the oldest first."""
    pages = [upload(server, f"{n}.jpg", photo(seed=n)) for n in range(3)]
    with server.client() as client:
        for n in range(3):
            path = f"/api/organizations/default/uploads/{n}.jpg"
            eventually(lambda: client.get(path).json()["classificationStatus"] == "done")  # noqa: B023
    return pages


def in_state(page: Page, state: str) -> None:
    expect(page.locator("live-region")).to_have_attribute("data-state", state)
