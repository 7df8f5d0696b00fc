"""Stored bytes on their way: the first comes soon or not at all, the rest take the time they take."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from safelight.http import content
from safelight.http.content import ContentAway, Stored, respond

PIECES = [b"one", b"two", b"three", b"four"]
SIZE = sum(map(len, PIECES))


async def pieces(first: float, others: float = 0) -> AsyncIterator[bytes]:
    """Each after so many seconds."""
    for number, piece in enumerate(PIECES):
        await asyncio.sleep(others if number else first)
        yield piece


async def nothing() -> AsyncIterator[bytes]:
    for piece in PIECES[:0]:
        yield piece


async def broken() -> AsyncIterator[bytes]:
    for piece in PIECES:
        if piece:
            raise TimeoutError("of somebody else")
        yield piece


def asked(chunks: AsyncIterator[bytes], size: int = SIZE) -> "asyncio.Task[Response]":
    async def read(_: int, __: int) -> AsyncIterator[bytes]:
        return chunks

    request = Request({"type": "http", "method": "GET", "headers": []})
    return asyncio.create_task(respond(request, Stored(size, "image/png", "etag", read)))


async def body(response: Response) -> bytes:
    assert isinstance(response, StreamingResponse)
    return b"".join([bytes(piece) async for piece in response.body_iterator])  # type: ignore[arg-type]  # bytes, all of them


async def test_slow_but_moving_bytes_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they take longer than the first one may."""
    monkeypatch.setattr(content, "FIRST_BYTE_SECONDS", 1.0)
    assert await body(await asked(pieces(0, 0.4))) == b"".join(PIECES)


async def test_bytes_that_do_not_come_are_an_error_before_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(content, "FIRST_BYTE_SECONDS", 0.05)
    with pytest.raises(ContentAway):
        await asked(pieces(60))


async def test_nothing_is_an_answer_too() -> None:
    assert await body(await asked(nothing(), 0)) == b""


async def test_anothers_limit_is_not_taken_for_ours() -> None:
    with pytest.raises(TimeoutError, match="of somebody else"):
        await asked(broken())


def test_whoever_waits_is_told_within_ten_seconds() -> None:
    assert content.FIRST_BYTE_SECONDS <= 10
