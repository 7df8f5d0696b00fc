"""What a browser sees instead of a JSON error: the same words on a page, with a way on, or the way
to sign in."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.guard import identify
from safelight.errors import SafelightError
from safelight.http.frame import services
from safelight.infra.db import AWAY
from safelight.web.rendering import Context, Pages
from safelight.web.way_back import way_back

_TITLES: Final = {
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    409: "Not as it was",
    413: "Too large",
    422: "Something is not right",
    429: "Too many attempts",
    503: "Not available right now",
    507: "No room left",
}
_ICONS: Final = {403: "approve", 404: "search", 405: "approve", 429: "clock", 503: "clock"}
_NOWHERE: Final = (404, 405)
_UNAVAILABLE: Final = 503
_PAUSE: Final = 5  # seconds, where nobody said how long


@dataclass(frozen=True, kw_only=True)
class ErrorPage(Context):
    template: ClassVar[str] = "error.html"
    status: int
    message: str
    code: str
    icon: str
    back: str | None  # the page that led here
    again: str | None = None  # asking for it once more does no harm
    again_after: int | None = None  # seconds, and then by itself
    request_id: str | None = None  # for whoever looks into the log


async def render_error_page(
    request: Request, status: int, body: dict[str, Any], headers: Mapping[str, str]
) -> Response:
    if status == 401 and "authorization" not in request.headers:  # noqa: PLR2004
        return RedirectResponse(_sign_in_address(request), 303)
    if status in _NOWHERE:
        # No route asked who it is. They keep their navigation, if that can be found out.
        with suppress(SafelightError, *AWAY):
            await identify(request)
    page = _page(request, status, body, headers)
    return services(request).get(Pages).render_error(request, page, status)


def _page(
    request: Request, status: int, body: dict[str, Any], headers: Mapping[str, str]
) -> ErrorPage:
    is_ours = status >= 500  # noqa: PLR2004
    reads = request.method == "GET"
    told = headers.get("retry-after", "")
    pause = int(told) if told.isdigit() else _PAUSE
    return ErrorPage(
        title=_TITLES.get(status, "Something went wrong"),
        status=status,
        message=body["error"],
        code=body["code"],
        icon=_ICONS.get(status, "alert"),
        back=way_back(request),
        again=_here(request) if reads and (is_ours or told) else None,
        again_after=pause if reads and status == _UNAVAILABLE else None,
        request_id=structlog.contextvars.get_contextvars().get("requestId") if is_ours else None,
    )


def _sign_in_address(request: Request) -> str:
    """A form cannot be sent again after signing in, so only reading comes back."""
    if request.method != "GET" or request.url.path == "/":
        return "/login"
    return f"/login?next={quote(_here(request), safe='/')}"


def _here(request: Request) -> str:
    path = quote(request.scope["path"])
    return path + (f"?{request.url.query}" if request.url.query else "")
