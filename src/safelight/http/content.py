"""Serving stored bytes: ETag, conditional requests and single ranges (RFC 9110). Whoever asks has
the first of them soon, or an error; the others may take their time."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from safelight.errors import Overwritten, RangeNotSatisfiable, Unavailable

FIRST_BYTE_SECONDS = 10.0
# At an address that names the bytes it is of, it never changes.
FOR_EVER = "private, max-age=31536000, immutable"
ASK_AGAIN = "private, no-cache"
_LOOKS = 8
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
    cache_control: str = ASK_AGAIN


@dataclass(frozen=True, slots=True)
class ReadPart:
    """Bytes `start` to `stop` (exclusive) of the whole that `of` tells of."""

    of: Stored
    start: int
    stop: int
    chunks: AsyncIterator[bytes]


class Named(Protocol):
    """Bytes under a name that others may give to other bytes meanwhile."""

    async def look(self) -> Stored:
        """What is there now. Its `open` raises `Overwritten` when that is not there any more."""

    async def read(self, start: int, stop: int | None) -> ReadPart:
        """What is there now, and these of its bytes."""


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
    if _matches(request.headers.get("if-none-match"), etag):
        return Response(None, 304, _headers(stored))
    asked = request.headers.get("range")
    if asked and request.headers.get("if-range", etag) != etag:
        asked = None
    part = parse_range(asked, stored.size)
    start, stop = part or (0, stored.size)
    status, headers = _of_part(stored, start, stop, ranged=part is not None)
    if request.method == "HEAD":
        return Response(None, status, headers, media_type=stored.content_type)
    async with soon():
        chunks = await _begun(await stored.open(start, stop))
    return StreamingResponse(chunks, status, headers, media_type=stored.content_type)


async def respond_named(request: Request, named: Named) -> Response:
    """One question, where the request says by itself which bytes it wants; else what is there is
    looked at first, and once more when it was replaced before its bytes were read."""
    if plain := _plain(request):
        with suppress(RangeNotSatisfiable):  # its answer says the size
            return await _at_once(named, *plain)
    for _ in range(_LOOKS):
        with suppress(Overwritten):
            return await respond(request, await named.look())
    raise Overwritten


def elsewhere(request: Request, stored: Stored, address: str) -> Response:
    """Whoever may have it fetches it there, unless he has it already."""
    headers = {"etag": f'"{stored.etag}"', "cache-control": "private, no-store"}
    if _matches(request.headers.get("if-none-match"), headers["etag"]):
        return Response(None, 304, headers)
    return Response(None, 302, {**headers, "location": address})


async def _at_once(named: Named, start: int, stop: int | None, ranged: bool) -> Response:
    async with soon():
        found = await named.read(start, stop)
        if ranged and found.start == found.stop:
            raise RangeNotSatisfiable  # of nothing there is no part
        chunks = await _begun(found.chunks)
    status, headers = _of_part(found.of, found.start, found.stop, ranged=ranged)
    return StreamingResponse(chunks, status, headers, media_type=found.of.content_type)


def _plain(request: Request) -> tuple[int, int | None, bool] | None:
    """The bytes of a request whose answer depends on nothing else; the last says if they are a
    range."""
    headers = request.headers
    if request.method == "HEAD" or "if-none-match" in headers or "if-range" in headers:
        return None
    match = _RANGE.fullmatch(headers.get("range", "").strip())
    if match is None or match[0] == "bytes=-":
        return 0, None, False
    first, last = match.groups()
    if not first:
        return None  # counted from the end
    if last and int(last) < int(first):
        return 0, None, False
    return int(first), int(last) + 1 if last else None, True


def _headers(stored: Stored) -> dict[str, str]:
    headers = {
        "etag": f'"{stored.etag}"',
        "accept-ranges": "bytes",
        "cache-control": stored.cache_control,
        "content-security-policy": _INERT,
    }
    if stored.name:
        headers["content-disposition"] = disposition(stored.name)
    return headers


def disposition(name: str) -> str:
    return f"inline; filename*=UTF-8''{quote(name, safe='')}"


def _of_part(stored: Stored, start: int, stop: int, *, ranged: bool) -> tuple[int, dict[str, str]]:
    headers = _headers(stored)
    if ranged:
        headers["content-range"] = f"bytes {start}-{stop - 1}/{stored.size}"
    headers["content-length"] = str(stop - start)
    return (206 if ranged else 200), headers


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
