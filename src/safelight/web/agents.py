"""What a browser calls itself, as people would call it. Pure."""

import re
from typing import Final

# The first that fits: nearly all claim to be those that came before them.
_BROWSERS: Final = (
    (re.compile(r"Edg(?:e|A|iOS)?/"), "Edge"),
    (re.compile(r"OPR/|Opera"), "Opera"),
    (re.compile(r"SamsungBrowser/"), "Samsung Internet"),
    (re.compile(r"Firefox/|FxiOS/"), "Firefox"),
    (re.compile(r"Chrome/|CriOS/|Chromium/"), "Chrome"),
    (re.compile(r"Version/.*Safari/"), "Safari"),
    (re.compile(r"^curl/"), "curl"),
    (re.compile(r"^python"), "A Python program"),
)
_SYSTEMS: Final = (
    (re.compile(r"iPhone"), "iPhone"),
    (re.compile(r"iPad"), "iPad"),
    (re.compile(r"Android"), "Android"),
    (re.compile(r"Windows"), "Windows"),
    (re.compile(r"CrOS"), "ChromeOS"),
    (re.compile(r"Mac OS X|Macintosh"), "macOS"),
    (re.compile(r"Linux|X11"), "Linux"),
)
_NOBODY: Final = "An unknown browser"


def in_words(agent: str | None) -> str:
    """The browser and the system it runs on."""
    said = agent or ""
    browser = next((name for known, name in _BROWSERS if known.search(said)), _NOBODY)
    system = next((name for known, name in _SYSTEMS if known.search(said)), None)
    return f"{browser} on {system}" if system else browser
