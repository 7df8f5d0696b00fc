"""The head of an answer goes out with its body, and never later than a pause."""

import asyncio
from typing import Any

from safelight.http.cover import Cover


class Line:
    """A transport that remembers each write."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sent.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> str:
        return name


def enclosed() -> tuple[Line, Cover]:
    line: Any = Line()
    return line, Cover(line, asyncio.get_running_loop())


async def test_head_and_body_are_one_write() -> None:
    line, cover = enclosed()
    cover.write(b"head ")
    assert line.sent == []
    cover.write(b"body")
    cover.write(b"more")
    await asyncio.sleep(0)
    assert line.sent == [b"head body", b"more"]


async def test_a_head_alone_goes_at_the_next_pause() -> None:
    line, cover = enclosed()
    cover.write(b"head")
    await asyncio.sleep(0)
    assert line.sent == [b"head"]
    cover.write(b"body")
    assert line.sent == [b"head", b"body"]


async def test_a_large_body_is_not_copied() -> None:
    line, cover = enclosed()
    body = bytes(1_000_000)
    cover.write(b"head")
    cover.write(body)
    assert line.sent[0] == b"head"
    assert line.sent[1] is body


async def test_closing_sends_what_was_held_back() -> None:
    line, cover = enclosed()
    cover.write(b"head")
    cover.close()
    await asyncio.sleep(0)
    assert (line.sent, line.closed) == ([b"head"], True)


async def test_nothing_is_written_to_a_line_that_others_closed() -> None:
    line, cover = enclosed()
    cover.write(b"head")
    line.close()
    await asyncio.sleep(0)
    assert line.sent == []
    assert cover.get_extra_info("peer") == "peer"
