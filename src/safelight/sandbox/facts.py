"""Reading what a child says, field by field. It may be in the hands of an image, so a field has the
type and the bounds that it could have in truth, and whatever does not fit is `Garbled`. Pure."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_MOST: Final = 2**63 - 1  # what a database keeps
_PRINT: Final = re.compile(r"[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")
_WEBP_BYTES: Final = 30  # the shortest there is
_WEBP_KINDS: Final = frozenset({b"VP8 ", b"VP8L", b"VP8X"})
_WEBP_ALPHA: Final = 0x10  # the only thing an extended header may announce: no notes, no frames


class Garbled(Exception):
    """What arrived is not what the protocol says."""


def fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    """Exactly these."""
    if not isinstance(value, dict) or value.keys() != set(names):
        raise Garbled
    return value


def count(value: object, most: int = _MOST) -> int:
    """A boolean is a number to Python, and not to us."""
    if type(value) is not int or not 0 <= value <= most:
        raise Garbled
    return value


def share(value: object) -> float:
    """From nothing to all of it."""
    if not isinstance(value, float | int) or isinstance(value, bool) or not 0 <= value <= 1:
        raise Garbled
    return float(value)


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Garbled
    return value


def words(value: object, longest: int) -> str:
    """Such as every database keeps and every page can show."""
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise Garbled
    return value


def printable(value: object, longest: int) -> str:
    """What an honest child makes of a decoder's words, which may hold anything."""
    return "".join(char for char in str(value) if char.isprintable())[:longest]


def one_of(kinds: type[E], value: object) -> E:
    """Asked as a string: what cannot be hashed cannot be looked up either."""
    if not isinstance(value, str) or value not in set(kinds):
        raise Garbled
    return kinds(value)


def look(value: object) -> str:
    """A print of 64 bits."""
    if not isinstance(value, str) or not _PRINT.fullmatch(value):
        raise Garbled
    return value


def digest(value: object) -> str:
    """A SHA-256 in hex."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise Garbled
    return value


def color(value: object) -> str:
    if not isinstance(value, str) or not _COLOR.fullmatch(value):
        raise Garbled
    return value


def webp(data: bytes, most: int) -> bytes:
    """Begins as a WebP of that very length, of one frame, that holds no notes."""
    kind = data[12:16]
    ensure(_WEBP_BYTES <= len(data) <= most and data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    ensure(int.from_bytes(data[4:8], "little") + 8 == len(data) and kind in _WEBP_KINDS)
    ensure(kind != b"VP8X" or data[20] & ~_WEBP_ALPHA == 0)
    return data


def maybe(read: Callable[[object], T], value: object) -> T | None:
    return None if value is None else read(value)


def ensure(condition: bool) -> None:
    if not condition:
        raise Garbled
