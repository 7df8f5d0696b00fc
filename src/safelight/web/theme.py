"""Light or dark, as somebody chose in this browser."""

from typing import Final

from starlette.requests import Request

from safelight.web.session_cookie import THEME_COOKIE

SYSTEM: Final = "system"
THEMES: Final = (SYSTEM, "light", "dark")


def theme_of(request: Request) -> str:
    """Of a cookie, which anybody may write: only what is known goes into a page."""
    chosen = request.cookies.get(THEME_COOKIE, SYSTEM)
    return chosen if chosen in THEMES else SYSTEM
