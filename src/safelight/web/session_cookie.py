"""The browser's half of a session."""

from starlette.responses import Response

from safelight.accounts.guard import COOKIE, SESSION_MS
from safelight.settings import Settings


def set_cookie(response: Response, settings: Settings, value: str) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=SESSION_MS // 1000,
        httponly=True,
        samesite="lax",
        secure=_is_secure(settings),
    )


def clear_cookie(response: Response, settings: Settings) -> None:
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=_is_secure(settings))


def _is_secure(settings: Settings) -> bool:
    return (settings.public_url or "").startswith("https://")
