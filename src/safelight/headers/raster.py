"""Width and height of JPEG, PNG, WebP and GIF files.

Guarantees: one bounded pass each, from segment to segment, in flat memory; nothing is raised but
`Malformed` (or `CutShort`, when bytes after these might have answered).
A WebP's canvas is believed: its decoder refuses frames that do not fit into it.
"""

import re
import zlib
from typing import Final

from safelight.headers.reading import CutShort, Malformed, Reader, Size, Unsupported

MOST_JPEG_BYTES: Final = 32 * 1024 * 1024  # before the frame header
MOST_JPEG_SEGMENTS: Final = 4096
MOST_JPEG_STRAY: Final = 1024 * 1024  # between segments; it has to be searched byte by byte

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
_AT_A_TIME: Final = 4096


def jpeg_size(file: Reader) -> Size:
    """The frame header may lie behind megabytes of colour profile, depth map and previews."""
    at, stray = 2, 0
    for _ in range(MOST_JPEG_SEGMENTS):
        marker, begin = _next_jpeg_marker(file, at, MOST_JPEG_STRAY - stray)
        stray += begin - at - len(b"\xff\xd8")
        if marker in _JPEG_FRAMES:
            return _jpeg_frame_size(file, begin)
        if marker in _JPEG_TOO_LATE:
            raise Malformed("has no frame header before its picture data")
        at = begin
        if marker not in _JPEG_WITHOUT_LENGTH:
            at += _jpeg_segment_length(file, begin)
        if at > MOST_JPEG_BYTES:
            raise Unsupported("has more than 32 MiB before its frame header")
    raise Unsupported(f"has more than {MOST_JPEG_SEGMENTS:,} segments before its frame header")


def _next_jpeg_marker(file: Reader, at: int, most: int) -> tuple[int, int]:
    """The marker and where its segment starts; skips fill and stray bytes, as decoders do."""
    end = at + most
    while at <= end:
        chunk = file.some(at, _AT_A_TIME)
        if found := _JPEG_MARKER.search(chunk):
            return found[1][0], at + found.end()
        if len(chunk) < _AT_A_TIME:
            raise CutShort
        at += len(chunk) - 1  # the last may be the first half of a marker
    raise Malformed("has too much between the segments before its frame header")


def _jpeg_segment_length(file: Reader, at: int) -> int:
    length = file.big(at, 2)
    if length < len(b"LL"):
        raise Malformed("has a segment shorter than its own length field")
    return length


def _jpeg_frame_size(file: Reader, at: int) -> Size:
    length, height, width = file.big(at, 2), file.big(at + 3, 2), file.big(at + 5, 2)
    components = file.big(at + 7, 1)
    if components == 0 or length != 8 + 3 * components:
        raise Malformed("has a frame header of the wrong length")
    if height == 0:
        raise Unsupported("leaves its height to the end (DNL)")
    return width, height


def png_size(file: Reader) -> Size:
    """The header chunk alone is enough: a picture refused for its size need not have any data."""
    if file.exactly(8, 8)[4:] == b"CgBI":
        raise Unsupported("is one that Xcode made for an iOS app (CgBI)")
    if file.exactly(8, 8) != b"\x00\x00\x00\x0dIHDR":
        raise Malformed("does not begin with an IHDR chunk")
    if zlib.crc32(file.exactly(12, 17)) != file.big(29, 4):
        raise Malformed("has a damaged IHDR chunk: its checksum does not match")
    depth, colour, compression, filtering, interlace = file.exactly(24, 5)
    if depth not in _PNG_DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        raise Malformed("uses a pixel format that PNG does not have")
    width, height = file.big(16, 4), file.big(20, 4)
    if max(width, height) > _PNG_LARGEST:
        raise Malformed("gives a width or height that PNG does not allow")
    return width, height


def webp_size(file: Reader) -> Size:
    match file.exactly(12, 4):
        case b"VP8 ":
            return _vp8_size(file)
        case b"VP8L":
            return _vp8l_size(file)
        case b"VP8X":
            return 1 + file.little(24, 3), 1 + file.little(27, 3)
    raise Malformed("does not begin with a VP8, VP8L or VP8X chunk")


def _vp8_size(file: Reader) -> Size:
    is_interframe = file.little(20, 1) & 1
    if is_interframe or file.exactly(23, 3) != _VP8_START:
        raise Malformed("does not begin with a VP8 key frame")
    return file.little(26, 2) & _FOURTEEN_BITS, file.little(28, 2) & _FOURTEEN_BITS


def _vp8l_size(file: Reader) -> Size:
    bits = file.little(21, 4)
    version = bits >> 29
    if file.little(20, 1) != _VP8L_SIGNATURE or version:
        raise Malformed("does not begin with a VP8L header")
    return 1 + (bits & _FOURTEEN_BITS), 1 + (bits >> 14 & _FOURTEEN_BITS)


def gif_sizes(file: Reader) -> tuple[Size, int]:
    """The logical screen, or the first frame where the screen is left at zero; and how many pixels
    that makes, since decoders widen the screen for a frame that reaches beyond it."""
    width, height = file.little(6, 2), file.little(8, 2)
    left, top, frame_width, frame_height = _first_gif_frame(file)
    pixels = max(width, left + frame_width) * max(height, top + frame_height)
    return (width, height) if width and height else (frame_width, frame_height), pixels


def _first_gif_frame(file: Reader) -> tuple[int, int, int, int]:
    """Left, top, width and height."""
    at = 13 + _gif_colour_table_length(file.big(10, 1))
    while (block := file.big(at, 1)) == _GIF_EXTENSION:
        at = _after_gif_sub_blocks(file, at + 2)
    if block != _GIF_FRAME:
        raise Malformed("has no frame")
    left, top, width, height = (file.little(at + nth, 2) for nth in (1, 3, 5, 7))
    return left, top, width, height


def _gif_colour_table_length(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & _GIF_COLOUR_TABLE else 0


def _after_gif_sub_blocks(file: Reader, at: int) -> int:
    while length := file.big(at, 1):
        at += 1 + length
    return at + 1
