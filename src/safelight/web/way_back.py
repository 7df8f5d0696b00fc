"""Where somebody came from, if that was a page of ours."""

from urllib.parse import urlsplit

from starlette.requests import Request

from safelight.accounts.origin import local_path, own_origins
from safelight.http.frame import services
from safelight.settings import Settings


def way_back(request: Request) -> str | None:
    """The path of the page that a browser says it comes from. None: from elsewhere, or from the
    very address that was asked for."""
    public_url = services(request).get(Settings).public_url
    ours = own_origins(request.url.scheme, request.headers.get("host"), public_url)
    try:
        page = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return None
    if f"{page.scheme}://{page.netloc}".lower() not in ours:
        return None
    path = f"{page.path}?{page.query}" if page.query else page.path
    target = local_path(path)
    is_here = request.method == "GET" and page.path == request.url.path
    return target if target == path and not is_here else None
