"""Time, ids and secrets: what nobody reads or makes by himself, so that tests can choose it."""

import os
import re
import secrets
import time
import uuid
from collections import deque
from collections.abc import MutableMapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NewType, Protocol

ImageId = NewType("ImageId", str)

TOKEN_PREFIX = "slt_"  # noqa: S105 - a prefix people can recognise in a leak, not a secret
_TOKEN = re.compile(r"slt_[A-Za-z0-9_\-]{8,}")
_ALPHABET = b"0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no letters that read as digits
_LETTERS = _ALPHABET * 8  # for every byte


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations only."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def iso(ms: int) -> str:
    """How times look on the wire: ISO-8601, UTC, milliseconds, Z."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


def day(ms: int) -> str:
    return _second(ms // 1000)[: len("2000-01-01")]


@lru_cache(maxsize=256)  # most of what is told happens now
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


class Ids(Protocol):
    def image(self, now_ms: int) -> ImageId: ...
    def uuid4(self) -> str: ...
    def uuid7(self, now_ms: int) -> str: ...
    def short(self, prefix: str) -> str: ...
    def secret(self) -> str: ...


class RandomIds:
    def image(self, now_ms: int) -> ImageId:
        return ImageId(f"img_{day(now_ms)}_{_random_text(16)}")

    def uuid4(self) -> str:
        return str(uuid.UUID(bytes=_random(16), version=4))

    def uuid7(self, now_ms: int) -> str:
        """Sorts by time of making (RFC 9562): 48 bits of milliseconds, then randomness."""
        value = (now_ms & (1 << 48) - 1) << 80 | secrets.randbits(80)
        value = value & ~(0xF << 76) | 7 << 76
        value = value & ~(0b11 << 62) | 0b10 << 62
        return str(uuid.UUID(int=value))

    def short(self, prefix: str) -> str:
        return f"{prefix}_{_random_text(20)}"

    def secret(self) -> str:
        """256 bits, URL-safe."""
        return secrets.token_urlsafe(32)


def _random_text(length: int) -> str:
    """32 letters are five bits each, without a bias."""
    return _random(length).translate(_LETTERS).decode()


def _random(length: int) -> bytes:
    """The system's randomness, some of it fetched ahead: each look at it gives the interpreter's
    lock to whoever waits for it. For ids; a secret is fetched when it is made, and kept nowhere."""
    while True:
        try:
            return _AHEAD.popleft()[:length]
        except IndexError:
            fetched = secrets.token_bytes(_PIECE * _PIECES)
            _AHEAD.extend(fetched[at : at + _PIECE] for at in range(0, len(fetched), _PIECE))


_PIECE, _PIECES = 20, 128  # the longest id takes a piece
_AHEAD: deque[bytes] = deque()
os.register_at_fork(after_in_child=_AHEAD.clear)  # or two processes would make the same ids


def hide_tokens(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of log lines."""
    for key, value in event.items():
        if isinstance(value, str) and "slt_" in value:
            event[key] = _TOKEN.sub("slt_…", value)
    return event
