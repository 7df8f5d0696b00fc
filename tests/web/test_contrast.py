"""Text can be read on what lies under it, in light and in dark (WCAG AA)."""

import math
import re
from pathlib import Path

import pytest

TOKENS = Path(__file__).parents[2] / "src/safelight/web/static/css/tokens.css"
PAIRS = [
    ("ink-1", "canvas-1"), ("ink-1", "canvas-2"), ("ink-1", "canvas-3"), ("ink-1", "accent-wash"),
    ("ink-2", "canvas-1"), ("ink-2", "canvas-2"), ("ink-2", "canvas-3"), ("ink-2", "accent-wash"),
    ("ink-3", "canvas-1"), ("ink-3", "canvas-2"),
    ("accent-ink", "accent"), ("accent-ink", "accent-hover"),
    ("accent-text", "canvas-1"), ("accent-text", "canvas-2"), ("accent-text", "accent-wash"),
    ("problem-text", "problem-wash"), ("good-text", "good-wash"),
    ("problem-text", "canvas-1"), ("good-text", "canvas-1"), ("ink-3", "canvas-3"),
    ("code-ink", "code-canvas"), ("code-ink-2", "code-head"), ("code-ink-2", "code-canvas"),
]  # fmt: skip


def tokens(theme: str) -> dict[str, str]:
    """A colour that is written once is the same in both."""
    one = r"oklch\(([^)/]+)(?:/[^)]*)?\)"
    found = re.findall(rf"--([\w-]+): (?:light-dark\({one}, {one}\)|{one});", TOKENS.read_text())
    return {name: (dark if theme == "dark" else light) or same for name, light, dark, same in found}


def luminance(colour: str) -> float:
    lightness, chroma, hue = (float(part) for part in colour.split())
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short
    red, green, blue = (min(1.0, max(0.0, part)) for part in (red, green, blue))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_sum_is_right() -> None:
    assert contrast("0 0 0", "1 0 0") == pytest.approx(21, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(theme: str) -> None:
    found = tokens(theme)
    assert [pair for pair in PAIRS if contrast(found[pair[0]], found[pair[1]]) < 4.5] == []
    assert contrast(found["line-strong"], found["canvas-1"]) >= 3, "the edge of a field"
