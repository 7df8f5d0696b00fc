"""Width and height from the headers of JPEG, PNG, WebP and GIF files.

Guarantees: each reader makes one bounded pass over the bytes it is given, without recursion, and
raises nothing but `Malformed` (or `CutShort`, when bytes after these might have answered).
Known gap: a size is what the header claims; only a decoder can tell whether the data agrees.
"""

import re
import zlib
from typing import Final

Size = tuple[int, int]

# Start of frame 0 to 15, without the three codes of that range that mean tables and extensions.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_JPEG_TOO_LATE: Final = frozenset({0xD8, 0xD9, 0xDA})
_JPEG_MARKER: Final = re.compile(rb"\xff([\x01-\xfe])")

_PNG_DEPTHS: Final = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
_PNG_LARGEST: Final = 2**31 - 1

_GIF_COLOUR_TABLE: Final = 0x80
_GIF_EXTENSION: Final = 0x21
_GIF_FRAME: Final = 0x2C

_VP8_START: Final = b"\x9d\x01\x2a"
_VP8L_SIGNATURE: Final = 0x2F
_FOURTEEN_BITS: Final = 0x3FFF


class Malformed(ValueError):
    """The header breaks its format's rules; the message completes 'it …'."""


class CutShort(Malformed):
    """The bytes end before the size."""


def field(head: bytes, at: int, length: int) -> bytes:
    chunk = head[at : at + length]
    if len(chunk) < length:
        raise CutShort
    return chunk


def big(head: bytes, at: int, length: int) -> int:
    return int.from_bytes(field(head, at, length), "big")


def little(head: bytes, at: int, length: int) -> int:
    return int.from_bytes(field(head, at, length), "little")


def jpeg_size(head: bytes) -> Size:
    at = 2
    while True:
        marker, at = _next_jpeg_marker(head, at)
        if marker in _JPEG_FRAMES:
            return _jpeg_frame_size(head, at)
        if marker in _JPEG_TOO_LATE:
            raise Malformed("has no frame header before its picture data")
        if marker not in _JPEG_WITHOUT_LENGTH:
            at += _jpeg_segment_length(head, at)


def _next_jpeg_marker(head: bytes, at: int) -> tuple[int, int]:
    """The marker and where its segment starts; skips fill and stray bytes, as decoders do."""
    found = _JPEG_MARKER.search(head, at)
    if found is None:
        raise CutShort
    return found[1][0], found.end()


def _jpeg_segment_length(head: bytes, at: int) -> int:
    length = big(head, at, 2)
    if length < len(b"LL"):
        raise Malformed("has a segment shorter than its own length field")
    return length


def _jpeg_frame_size(head: bytes, at: int) -> Size:
    length, height, width = big(head, at, 2), big(head, at + 3, 2), big(head, at + 5, 2)
    components = big(head, at + 7, 1)
    if components == 0 or length != 8 + 3 * components:
        raise Malformed("has a frame header of the wrong length")
    if height == 0:
        raise Malformed("leaves its height to the end of the file (DNL), which is not supported")
    return width, height


def png_size(head: bytes) -> Size:
    """The header chunk alone is enough: a picture refused for its size need not have any data."""
    if field(head, 8, 8) != b"\x00\x00\x00\x0dIHDR":
        raise Malformed("does not begin with an IHDR chunk")
    if zlib.crc32(field(head, 12, 17)) != big(head, 29, 4):
        raise Malformed("has a damaged IHDR chunk: its checksum does not match")
    depth, colour, compression, filtering, interlace = field(head, 24, 5)
    if depth not in _PNG_DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        raise Malformed("uses a pixel format that PNG does not have")
    width, height = big(head, 16, 4), big(head, 20, 4)
    if max(width, height) > _PNG_LARGEST:
        raise Malformed("gives a width or height that PNG does not allow")
    return width, height


def webp_size(head: bytes) -> Size:
    match field(head, 12, 4):
        case b"VP8 ":
            return _vp8_size(head)
        case b"VP8L":
            return _vp8l_size(head)
        case b"VP8X":
            return 1 + little(head, 24, 3), 1 + little(head, 27, 3)
    raise Malformed("does not begin with a VP8, VP8L or VP8X chunk")


def _vp8_size(head: bytes) -> Size:
    is_interframe = little(head, 20, 1) & 1
    if is_interframe or field(head, 23, 3) != _VP8_START:
        raise Malformed("does not begin with a VP8 key frame")
    return little(head, 26, 2) & _FOURTEEN_BITS, little(head, 28, 2) & _FOURTEEN_BITS


def _vp8l_size(head: bytes) -> Size:
    bits = little(head, 21, 4)
    version = bits >> 29
    if little(head, 20, 1) != _VP8L_SIGNATURE or version:
        raise Malformed("does not begin with a VP8L header")
    return 1 + (bits & _FOURTEEN_BITS), 1 + (bits >> 14 & _FOURTEEN_BITS)


def gif_size(head: bytes) -> Size:
    """The logical screen, or the first frame where the screen is left at zero."""
    screen = little(head, 6, 2), little(head, 8, 2)
    return screen if all(screen) else _first_gif_frame_size(head)


def _first_gif_frame_size(head: bytes) -> Size:
    at = 13 + _gif_colour_table_length(big(head, 10, 1))
    while (block := big(head, at, 1)) == _GIF_EXTENSION:
        at = _after_gif_sub_blocks(head, at + 2)
    if block != _GIF_FRAME:
        raise Malformed("gives no size and has no frame")
    return little(head, at + 5, 2), little(head, at + 7, 2)


def _gif_colour_table_length(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & _GIF_COLOUR_TABLE else 0


def _after_gif_sub_blocks(head: bytes, at: int) -> int:
    while length := big(head, at, 1):
        at += 1 + length
    return at + 1
