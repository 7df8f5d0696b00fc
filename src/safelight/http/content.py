"""Serving stored bytes: ETag, conditional requests and single ranges (RFC 9110). Whoever asks has
the first of them soon, or an error; the others may take their time."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from safelight.errors import RangeNotSatisfiable, Unavailable

FIRST_BYTE_SECONDS = 10.0
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")  # more digits than any size: no range
# Whatever the bytes are, a browser that opens them directly runs nothing.
_INERT = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"


class ContentAway(Unavailable):
    """The stored bytes cannot be reached right now. Try again in a moment."""


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


@asynccontextmanager
async def soon() -> AsyncIterator[None]:
    """For what comes before the first byte, all of it together; a store waits for longer."""
    try:
        async with asyncio.timeout(FIRST_BYTE_SECONDS) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ContentAway from error


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
    async with soon():
        chunks = await _begun(await stored.open(start, stop))
    return StreamingResponse(chunks, status, headers, media_type=stored.content_type)


async def _begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same, once the first of them is here: what goes wrong until then is still an answer."""
    first = await anext(chunks, b"")

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return all_of_them()


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    candidates = [part.strip().removeprefix("W/") for part in header.split(",")]
    return "*" in candidates or etag in candidates
