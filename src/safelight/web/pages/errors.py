"""What a browser sees instead of a JSON error: the same words on a page, or the way to sign in."""

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.http.frame import services
from safelight.web.rendering import Context, Pages

_TITLES = {
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    429: "Too many attempts",
    503: "Not available right now",
}


@dataclass(frozen=True, kw_only=True)
class ErrorPage(Context):
    template: ClassVar[str] = "error.html"
    status: int
    message: str
    code: str


def render_error_page(request: Request, status: int, body: dict[str, Any]) -> Response:
    if status == 401 and "authorization" not in request.headers:  # noqa: PLR2004
        return RedirectResponse(_sign_in_address(request), 303)
    title = _TITLES.get(status, "Something went wrong")
    page = ErrorPage(title=title, status=status, message=body["error"], code=body["code"])
    return services(request).get(Pages).render_error(request, page, status)


def _sign_in_address(request: Request) -> str:
    """A form cannot be sent again after signing in, so only reading comes back."""
    if request.method != "GET" or request.url.path == "/":
        return "/login"
    path = quote(request.scope["path"])
    here = path + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?next={quote(here, safe='/')}"
