"""Where an image ends in its file, from the structure of its container alone.

Guarantees: pure; one bounded pass; None where the structure is broken or has no end, which is for
the decoder to judge.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

_JPEG_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_END: Final = 0xD9
_JPEG_SCAN: Final = 0xDA
# In drawn data, ff 00 is a stuffed byte and ff d0 … d7 only mark a restart.
_JPEG_AFTER_SCAN: Final = re.compile(rb"\xff+([\x01-\xcf\xd8-\xfe])")
_MOST_MARKERS: Final = 50_000  # a file of 25 MiB with notes of 500 bytes each
_JPEG_MARKER: Final = re.compile(rb"\xff+([\x01-\xfe])")
_GIF_FRAME, _GIF_EXTENSION, _GIF_END = 0x2C, 0x21, 0x3B
_BOXES: Final = frozenset(
    {b"ftyp", b"meta", b"mdat", b"moov", b"moof", b"free", b"skip", b"uuid", b"idat", b"mini"}
)


def end_of(data: bytes, content_type: str) -> int | None:
    find = _FINDERS.get(content_type)
    try:
        end = find(data) if find else None
    except IndexError:
        return None
    return end if end is not None and end <= len(data) else None


def jpeg_scans(data: bytes) -> int | None:
    """How often a JPEG is drawn over, to its end or to where it breaks off. A small picture in its
    notes and whatever stands behind it do not count. None: nobody counts that many markers."""
    scans = 0
    with suppress(IndexError):
        for number, (marker, _) in enumerate(_jpeg_markers(data)):
            if number == _MOST_MARKERS:
                return None
            scans += marker == _JPEG_SCAN
    return scans


def _jpeg_end(data: bytes) -> int | None:
    return next((end for marker, end in _jpeg_markers(data) if marker == _JPEG_END), None)


def _jpeg_markers(data: bytes) -> Iterator[tuple[int, int]]:
    """Each, and where it ends, up to the one that ends the image; as a decoder finds them."""
    at = 2
    pattern = _JPEG_MARKER
    while found := pattern.search(data, at):
        marker, at = found[1][0], found.end()
        yield marker, at
        if marker == _JPEG_END:
            return
        if marker not in _JPEG_ALONE:
            at += _big(data, at, 2)
        pattern = _JPEG_AFTER_SCAN if marker == _JPEG_SCAN else _JPEG_MARKER


def _png_end(data: bytes) -> int | None:
    at = 8
    while at + 8 <= len(data):
        length, kind = _big(data, at, 4), data[at + 4 : at + 8]
        at += 12 + length
        if kind == b"IEND":
            return at
    return None


def _gif_end(data: bytes) -> int | None:
    at = 13 + _colours(data[10])
    while True:
        block = data[at]
        if block == _GIF_END:
            return at + 1
        if block == _GIF_EXTENSION:
            at = _after_sub_blocks(data, at + 2)
        elif block == _GIF_FRAME:
            at = _after_sub_blocks(data, at + 11 + _colours(data[at + 9]))
        else:
            return None


def _webp_end(data: bytes) -> int | None:
    return 8 + int.from_bytes(data[4:8], "little")


def _boxes_end(data: bytes) -> int | None:
    """Boxes until something that cannot be one of an image's."""
    at = 0
    while at + 8 <= len(data) and data[at + 4 : at + 8] in _BOXES:
        length = _big(data, at, 4)
        if length == 1:
            length = _big(data, at + 8, 8)
        if length == 0:
            return len(data)  # the last box goes on to the end of the file
        at += max(length, 8)
    return at or None


def _colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _after_sub_blocks(data: bytes, at: int) -> int:
    while length := data[at]:
        at += 1 + length
    return at + 1


def _big(data: bytes, at: int, length: int) -> int:
    found = data[at : at + length]
    if len(found) < length:
        raise IndexError
    return int.from_bytes(found, "big")


_FINDERS: Final[dict[str, Callable[[bytes], int | None]]] = {
    "image/jpeg": _jpeg_end,
    "image/png": _png_end,
    "image/gif": _gif_end,
    "image/webp": _webp_end,
    "image/avif": _boxes_end,
    "image/heic": _boxes_end,
}
