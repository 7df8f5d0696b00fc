"""Whether a request comes from our own pages. Pure."""

from collections.abc import Mapping
from urllib.parse import urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})  # none: typed in, or a bookmark


def own_origins(scheme: str, host: str | None, public_url: str | None) -> frozenset[str]:
    """A socket's ws and wss belong to pages of http and https."""
    page_scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    origins = {f"{page_scheme}://{host}"} if host else set()
    if public_url:
        parts = urlsplit(public_url)
        origins.add(f"{parts.scheme}://{parts.netloc}")
    return frozenset(origin.lower() for origin in origins)


def from_own_page(headers: Mapping[str, str], ours: frozenset[str]) -> bool:
    """Sec-Fetch-Site cannot be set by a page; Origin is for browsers that do not send it."""
    if headers.get("sec-fetch-site") in _OWN_SITES:
        return True
    return headers.get("origin", "").lower() in ours


def from_foreign_page(headers: Mapping[str, str], ours: frozenset[str]) -> bool:
    """For requests without a cookie, where a program that sends neither header is welcome."""
    sent = "sec-fetch-site" in headers or "origin" in headers
    return sent and not from_own_page(headers, ours)


def local_path(target: str | None) -> str:
    """Where to go after signing in: a path of ours, or the home page."""
    if not target or not target.startswith("/") or target[1:2] in {"/", "\\"}:
        return "/"
    return target if target.isprintable() and target.isascii() else "/"
