"""What an organization uses, on its admins' first page: bars without a script, in light and in dark."""

import pytest
from playwright.sync_api import expect

from browser.conftest import PATIENCE, Visit
from harness import Server, eventually, picture

LIMITS = "/api/v1/admin/organizations/default/quotas"
SMALL = {"width": 380, "height": 800}
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_show_what_is_used(visit: Visit, server: Server, scheme: str) -> None:
    image = picture()
    limits = {"storedBytes": 2 * len(image), "uploadsPerMinute": 0, "submissionsPerDay": 7}
    with server.client() as client:
        assert client.put(LIMITS, json=limits).status_code == 200
    assert server.upload(image, "one.jpg").status_code == 201
    eventually(lambda: _stored(server) == len(image))  # what it replaces counts until it does
    page = visit("/", java_script_enabled=False, color_scheme=scheme, viewport=SMALL)
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
