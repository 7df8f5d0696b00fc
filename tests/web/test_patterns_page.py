"""Whoever adds a piece shows it: a file of css/components has a pattern of its name, a macro of
_pieces.html is used by one. What is there is then looked at in every light (tests/browser)."""

import re
from pathlib import Path

import safelight.web
from accounts.world import World
from safelight.accounts.access import Role
from safelight.web.pages.patterns import lifecycles, patterns

WEB = Path(safelight.web.__file__).parent
PATTERNS = WEB / "templates/patterns"


def test_every_component_has_a_pattern() -> None:
    components = {path.stem for path in (WEB / "static/css/components").glob("*.css")}
    missing = sorted(components - {one.name for one in patterns()})
    assert missing == [], "add templates/patterns/<name>.html, which begins with {# Group: words #}"


def test_every_piece_is_used_by_a_pattern() -> None:
    macros = re.findall(r"{%-? macro (\w+)\(", (WEB / "templates/_pieces.html").read_text())
    used = "".join(path.read_text() for path in PATTERNS.glob("*.html"))
    assert macros
    assert [name for name in macros if f"ui.{name}(" not in used] == []


async def test_the_page_is_for_operators_and_shows_all_of_it(world: World) -> None:
    await world.organization("default")
    await world.user("ada", {"default": Role.ADMIN}, operator=True)
    await world.user("max", {"default": Role.ADMIN})
    async with world.browser(await world.cookie("max")) as client:
        assert (await client.get("/patterns")).status_code == 403
    async with world.browser(await world.cookie("ada")) as client:
        page = (await client.get("/patterns")).text
    for one in patterns():
        assert f'href="#{one.name}"' in page
        assert f'<section class="pattern" id="{one.name}"' in page
    for life in lifecycles():
        assert all(f"{state.word}</span>" in page for state in life.states), life.title
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert " style=" not in page
