"""What axe has against a page, in words that say where. `look` is for every state that a page can
be in: opened menus, dialogs, errors, empty lists."""

import json
from importlib import resources
from typing import Any

from playwright.sync_api import Page

_SOURCE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
_COLOURS = ["color-contrast", "link-in-text-block"]
_RUN = """async (rules) => {
  const only = rules ? { runOnly: { type: "rule", values: rules } } : {};
  const found = await axe.run(document, { resultTypes: ["violations"], ...only });
  return found.violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => ({ id, help, html: html.slice(0, 300), why: failureSummary })));
}"""


def look(page: Page, *, colours: bool = False) -> list[str]:
    """Empty if nothing is wrong. `colours`: only they differ from what was looked at before. The
    pages' policy lets no script in but their own; a debugger's evaluation is not one."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_SOURCE)
    found: list[dict[str, Any]] = page.evaluate(_RUN, _COLOURS if colours else None)
    return [f"{each['id']}: {each['html']} ({json.dumps(each['why'])})" for each in found]
