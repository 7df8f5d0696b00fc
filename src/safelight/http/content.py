"""Serving stored bytes: ETag, conditional requests and single ranges (RFC 9110)."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from safelight.errors import RangeNotSatisfiable

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
# Whatever the bytes are, a browser that opens them directly runs nothing.
_INERT = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"

Open = Callable[[int, int], Awaitable[AsyncIterator[bytes]]]


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of the bytes before they are read; `open(start, stop)` reads them."""

    size: int
    content_type: str
    etag: str
    open: Open
    name: str | None = None
    cache_control: str = "private, no-cache"


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Start and stop (exclusive). None: send everything, as for a form we do not serve."""
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        start, stop = size - length, size
    else:
        start = int(first)
        stop = min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None  # not a range at all
    if start >= stop:
        raise RangeNotSatisfiable(size=size)
    return start, stop


async def respond(request: Request, stored: Stored) -> Response:
    etag = f'"{stored.etag}"'
    headers = {
        "etag": etag,
        "accept-ranges": "bytes",
        "cache-control": stored.cache_control,
        "content-security-policy": _INERT,
    }
    if stored.name:
        headers["content-disposition"] = f"inline; filename*=UTF-8''{quote(stored.name, safe='')}"
    if _matches(request.headers.get("if-none-match"), etag):
        return Response(None, 304, headers)
    asked = request.headers.get("range")
    if asked and request.headers.get("if-range", etag) != etag:
        asked = None
    part = parse_range(asked, stored.size)
    start, stop = part or (0, stored.size)
    if part:
        headers["content-range"] = f"bytes {start}-{stop - 1}/{stored.size}"
    headers["content-length"] = str(stop - start)
    status = 206 if part else 200
    if request.method == "HEAD":
        return Response(None, status, headers, media_type=stored.content_type)
    chunks = await stored.open(start, stop)
    return StreamingResponse(chunks, status, headers, media_type=stored.content_type)


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    candidates = [part.strip().removeprefix("W/") for part in header.split(",")]
    return "*" in candidates or etag in candidates
