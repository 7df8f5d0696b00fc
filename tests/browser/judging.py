"""What is asked of a page in the browser itself, each in one round trip: answers are complaints."""

from typing import Any

from playwright.sync_api import Page

# Seen, reachable, and not kept for screen readers alone.
_SEEN = """
const seen = (one) => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })
    && box.width > 1 && box.height > 1 && !one.closest("[inert], .visually-hidden, .skip-link");
};
const named = (one) => one.outerHTML.replace(/\\s+/g, " ").slice(0, 140);
const dialog = document.querySelector("dialog:modal") ?? document.body;
"""
_FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
# A link within a sentence is as large as its words, and is excepted (WCAG 2.5.5). A box is as large
# as its label, and as what is drawn around it: what counts is what a finger hits.
_SMALL = (
    "(least) => {"
    + _SEEN
    + f"""
  const found = [];
  for (const one of dialog.querySelectorAll("{_FOCUSABLE}")) {{
    if (!seen(one) || one.disabled || one.matches("pre, [data-not-touched]")) continue;
    if (getComputedStyle(one).display === "inline") continue;
    const boxes = [one, ...(one.labels ?? [])].map((each) => each.getBoundingClientRect());
    const [across, down] = ["width", "height"].map((side) =>
      Math.max(...boxes.map((box) => box[side])));
    if (across >= least - 0.5 && down >= least - 0.5) continue;
    one.scrollIntoView({{ block: "center", inline: "center", behavior: "instant" }});
    const box = one.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2], reach = least / 2 - 0.5;
    const hits = [[-reach, 0], [reach, 0], [0, -reach], [0, reach]].every(([dx, dy]) => {{
      const hit = document.elementFromPoint(x + dx, y + dy);
      return hit && (one.contains(hit) || [...(one.labels ?? [])].some((each) => each.contains(hit)));
    }});
    if (!hits) found.push(`${{Math.round(across)}} × ${{Math.round(down)}}: ${{named(one)}}`);
  }}
  return found;
}}"""
)
# Of itself, of what is around it, or of what stands for it.
_DULL = (
    "() => {"
    + _SEEN
    + f"""
  const look = (one) => {{
    const near = [one, one.parentElement, one.nextElementSibling, ...(one.labels ?? []),
      one.closest("label, li, article, form, figure")];
    return near.filter(Boolean).map((each) => {{
      const style = getComputedStyle(each);
      return [style.outlineStyle, style.outlineWidth, style.outlineColor, style.boxShadow,
        style.backgroundColor, style.borderColor, style.opacity].join();
    }}).join("|");
  }};
  const before = document.activeElement;
  const found = [];
  for (const one of dialog.querySelectorAll("{_FOCUSABLE}")) {{
    if (!seen(one) || one.disabled || one.tabIndex < 0) continue;
    document.activeElement?.blur();
    const unfocused = look(one);
    one.focus({{ preventScroll: true }});
    if (document.activeElement === one && look(one) === unfocused) found.push(named(one));
  }}
  document.activeElement?.blur();
  before?.focus?.({{ preventScroll: true }});
  return found;
}}"""
)
_WIDE = (
    "() => {"
    + _SEEN
    + """
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const found = [...document.querySelectorAll("body *")].filter((one) =>
    seen(one) && one.getBoundingClientRect().right > room + 0.5);
  return [`${document.documentElement.scrollWidth} of ${room}: ${found.map(named).slice(0, 3)}`];
}"""
)
_FORMS = """() => [...document.forms].filter((form) => form.getAttribute("method") !== "dialog")
  .map((form) => ({
    method: form.method.toUpperCase(),
    path: new URL(form.getAttribute("action") ?? "", location.href).pathname,
    sends: form.querySelectorAll("button:not([type=button]), input[type=submit]").length > 0
      || document.querySelectorAll(`button[form="${form.id}"]`).length > 0,
  }))"""


def too_small(page: Page, least: int = 44) -> list[str]:
    """What a finger would miss. The pointer has to be coarse already."""
    found: list[str] = page.evaluate(_SMALL, least)
    return [f"smaller than {least}: {each}" for each in found]


def dull(page: Page) -> list[str]:
    """What looks the same with the focus as without it. A key was pressed, so the focus shows."""
    page.keyboard.press("Shift")
    found: list[str] = page.evaluate(_DULL)
    return [f"the focus does not show: {each}" for each in found]


def too_wide(page: Page) -> list[str]:
    found: list[str] = page.evaluate(_WIDE)
    return [f"wider than the window: {each}" for each in found]


def forms(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(_FORMS)
    return found


def headings(page: Page) -> list[str]:
    count = page.locator("h1").count()
    return [] if count == 1 else [f"{count} h1"]
