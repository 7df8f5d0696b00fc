"""The browser's half of a session, and what it is known by when it comes back."""

from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.access import Whence
from safelight.accounts.guard import COOKIE, SESSION_MS
from safelight.accounts.sign_in.flow import DEVICE_MS, Opened
from safelight.settings import Settings

DEVICE_COOKIE = "safelight_device"
ORGANIZATION_COOKIE = "safelight_organization"
THEME_COOKIE = "safelight_theme"
_SHOWN_ONCE_COOKIE = "safelight_new_{}"
_SHOWN_ONCE_MS = 60_000
_LONGEST_AGENT = 300


def whence(request: Request) -> Whence:
    said = "".join(filter(str.isprintable, request.headers.get("user-agent", "")))
    address = request.client.host if request.client else None
    return Whence(address, said[:_LONGEST_AGENT] or None)


def show_once(response: Response, settings: Settings, kind: str, secret: str, path: str) -> None:
    """For the page at `path` that the browser is led to: reloading it makes nothing anew, and
    the secret is in no address."""
    _set(response, settings, _SHOWN_ONCE_COOKIE.format(kind), secret, _SHOWN_ONCE_MS, path)


def to_show_once(request: Request, kind: str) -> str | None:
    return request.cookies.get(_SHOWN_ONCE_COOKIE.format(kind))


def was_shown(response: Response, settings: Settings, kind: str, path: str) -> None:
    _set(response, settings, _SHOWN_ONCE_COOKIE.format(kind), "", 0, path)


def welcome(response: Response, settings: Settings, opened: Opened) -> None:
    set_cookie(response, settings, opened.cookie)
    _set(response, settings, DEVICE_COOKIE, opened.device, DEVICE_MS)


def set_cookie(response: Response, settings: Settings, value: str) -> None:
    _set(response, settings, COOKIE, value, SESSION_MS)


def remember_organization(response: Response, settings: Settings, name: str) -> None:
    """Where pages without an organization in their address lead back to."""
    _set(response, settings, ORGANIZATION_COOKIE, name, DEVICE_MS)


def remember_theme(response: Response, settings: Settings, name: str) -> None:
    _set(response, settings, THEME_COOKIE, name, DEVICE_MS)


def clear_cookie(response: Response, settings: Settings) -> None:
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=_is_secure(settings))


def _set(
    response: Response, settings: Settings, name: str, value: str, life_ms: int, path: str = "/"
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=life_ms // 1000,
        path=path,
        httponly=True,
        samesite="lax",
        secure=_is_secure(settings),
    )


def _is_secure(settings: Settings) -> bool:
    return (settings.public_url or "").startswith("https://")
