"""Every page, in every state of the list, at every size, in the light and in the dark: axe finds
nothing, nothing is wider than the window, fingers hit what they aim at, the focus shows, nobody
complains on the console, and every form is sent to a route that there is, without scripts too.

`PAGES_MATRIX=all` looks at everything in both lights. Else a page is looked at in both at two sizes and
in one at the others, and each of its states on a desk; on a phone it is only held against the window.
"""

import os
import re
from collections import Counter

import pytest
from fastapi.routing import iter_route_contexts

from browser import judging
from browser.axe import look
from browser.pages import SIGHTS, Sight
from browser.windows import Window, Windows
from safelight.app import create_api

PHONE, DESK = (390, 844), (1440, 900)
SIZES = ((2560, 1440), DESK, (820, 1180), PHONE)
ALL = os.environ.get("PAGES_MATRIX") == "all"
# Asked for by scripts, or saved as a file: no pages.
DATA = re.compile(
    r"/app/\{org\}/counts|.*/(cards|download|months|filters|lines|tiles(/.*)?)|/static/.*|/(api|public|webhooks)/.*"
)
SAMPLES = {"patterns"}  # its forms are there to be seen
pytestmark = pytest.mark.browser
titles: dict[str, str] = {}
sent: dict[tuple[str, str], str] = {}


@pytest.mark.parametrize("sight", SIGHTS, ids=lambda sight: sight.name)
def test_every_page(windows: Windows, sight: Sight) -> None:
    window = windows.open(sight)
    wrong = [*judging.headings(window.page), *judged(window, sight)]
    if sight.scripts:
        wrong += judging.dull(window.page)
    if not sight.is_state:
        titles[window.page.url] = window.page.title()
    for form in [] if sight.name in SAMPLES else judging.forms(window.page):
        sent[form["method"], form["path"]] = sight.name
        wrong += [] if form["sends"] else [f"nothing sends the form to {form['path']}"]
    wrong += window.complaints
    window.page.close()
    assert not wrong, "\n".join(wrong)


def judged(window: Window, sight: Sight) -> list[str]:
    """The same page at each size: what is true of a window that was made smaller is of a small one."""
    wrong = []
    for size in SIZES if ALL or not sight.is_state else (DESK, PHONE):
        window.size(*size, touch=size == PHONE)
        scheme = "light" if size == DESK else "dark"
        window.light(scheme)
        is_looked_at = ALL or not sight.is_state or size == DESK
        found = [*judging.too_wide(window.page), *(look(window.page) if is_looked_at else [])]
        wrong += [f"{size[0]}, {scheme}: {each}" for each in found]
        if ALL or (size in {DESK, PHONE} and not sight.is_state):
            window.light("dark" if size == DESK else "light")
            found = look(window.page, colours=True)
            wrong += [f"{size[0]}, the other way: {each}" for each in found]
    return [*wrong, *judging.too_small(window.page)]


def test_each_has_a_title_of_its_own() -> None:
    times = Counter(titles.values())
    alike = [f"{title}: {url}" for url, title in titles.items() if times[title] > 1]
    assert not alike, "\n".join(alike)


def test_forms_go_where_somebody_listens() -> None:
    """So each works without a script."""
    routes = {
        (method, re.sub(r"\\\{[^/]*?\\\}", "[^/]+", re.escape(route.path_format or "")))
        for route in iter_route_contexts(create_api(development=False).routes)
        for method in route.methods or ()
    }
    lost = [
        f"{method} {path} of {name}"
        for (method, path), name in sent.items()
        if not any(m == method and re.fullmatch(route, path) for m, route in routes)
    ]
    assert lost == []


def test_no_page_is_left_out() -> None:
    """What people see under an address of its own is on the list."""
    seen = [sight.path.partition("?")[0] for sight in SIGHTS]
    missed = [
        route.path_format
        for route in iter_route_contexts(create_api(development=False).routes)
        if "GET" in (route.methods or ())
        and not getattr(route, "include_in_schema", False)
        and not DATA.fullmatch(route.path_format or "")
        and not any(
            re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route.path_format or ""), p) for p in seen
        )
    ]
    assert missed == []
