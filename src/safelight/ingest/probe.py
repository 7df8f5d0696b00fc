"""What an uploaded file is, from its first bytes: the type, the width and the height.

Guarantees: pure; time linear in the bytes given; nothing is raised but `NotAnImage`; the size is
the header's, before any rotation. Exactly JPEG, PNG, WebP, GIF and AVIF are known. Each reader of
a format makes one bounded pass, without recursion, and raises nothing but `Malformed` (or
`CutShort`, when bytes after these might have answered).
Known gaps: a size is what the header claims; only a decoder can tell whether the data agrees. A
JPEG whose metadata (colour profile, depth map, extended XMP) fills the first
`HEADER_BYTES` raises `HeaderTooLong`; giving `read_header` more of the file then helps.
"""

import codecs
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from safelight.ingest.avif import (
    GENERIC_BRANDS,
    HEIC_BRANDS,
    CutShort,
    Malformed,
    Size,
    avif_size,
    brands,
    may_be_avif,
)

HEADER_BYTES: Final = 65536
ENOUGH_TO_DETECT: Final = 32
ACCEPTED: Final = "JPEG, PNG, WebP, GIF or AVIF"


class NotAnImage(ValueError):
    """The file is not an accepted image; the message tells its sender why."""


class HeaderTooLong(NotAnImage):
    """The file goes on, but the bytes given end before the size."""


class ImageFormat(StrEnum):
    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    GIF = "image/gif"
    AVIF = "image/avif"

    @property
    def mime_type(self) -> str:
        return self.value

    @property
    def extension(self) -> str:
        return "jpg" if self is ImageFormat.JPEG else self.value.removeprefix("image/")

    @property
    def label(self) -> str:
        return "WebP" if self is ImageFormat.WEBP else self.name


@dataclass(frozen=True, slots=True)
class ImageHeader:
    mime_type: str
    extension: str
    width: int
    height: int


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

_REFUSED_SIGNATURES: Final = (
    (b"%PDF-", "PDF"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"II+\x00", "TIFF"),
    (b"MM\x00+", "TIFF"),
    (b"8BPS", "Photoshop"),
    (b"\x00\x00\x01\x00", "Windows icon"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\x00\x00\x00\x0cJXL ", "JPEG XL"),
    (b"\x00\x00\x00\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"PK\x03\x04", "ZIP"),
)
_BMP: Final = re.compile(rb"BM....\x00\x00\x00\x00", re.DOTALL)
_HTML: Final = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_SVG: Final = re.compile(rb"<([a-z]+:)?svg[\s>/]|<!doctype\s+svg\s", re.IGNORECASE)
_NOT_IN_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_TEXT_SAMPLE: Final = 1024


def detect(head: bytes) -> ImageFormat | None:
    """By signature alone; from `ENOUGH_TO_DETECT` bytes on, None is final.

    A format is not: a long list of brands may still turn out to lack AVIF's.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return ImageFormat.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageFormat.PNG
    if head.startswith((b"GIF87a", b"GIF89a")):
        return ImageFormat.GIF
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return ImageFormat.WEBP
    return ImageFormat.AVIF if may_be_avif(head) else None


def read_header(head: bytes, *, complete: bool) -> ImageHeader:
    """`head` is the start of the file; `complete` says that the file ends with it."""
    image_format = detect(head)
    if image_format is None:
        raise NotAnImage(f"{_refusal(head)}: send a {ACCEPTED} image.")
    try:
        width, height = _READERS[image_format](head)
    except CutShort:
        raise _cut_short(image_format, len(head), complete=complete) from None
    except Malformed as reason:
        raise NotAnImage(f"The {image_format.label} file is damaged: it {reason}.") from None
    if width == 0 or height == 0:
        raise NotAnImage(f"The {image_format.label} file gives a width or height of zero.")
    return ImageHeader(image_format.mime_type, image_format.extension, width, height)


def _cut_short(image_format: ImageFormat, length: int, *, complete: bool) -> NotAnImage:
    if complete:
        return NotAnImage(
            f"The {image_format.label} file is cut short: it ends before its width and height."
        )
    return HeaderTooLong(
        f"The {image_format.label} file does not give its width and height in its first"
        f" {length} bytes: save it with less embedded metadata."
    )


def _refusal(head: bytes) -> str:
    if not head:
        return "The file is empty"
    name = _refused_container(head) or _refused_text(head)
    return f"{name} is not accepted" if name else "The file is not an accepted image"


def _refused_container(head: bytes) -> str | None:
    for signature, name in _REFUSED_SIGNATURES:
        if head.startswith(signature):
            return name
    if _BMP.match(head):
        return "BMP"
    found = brands(head)
    if not found:
        return None
    return "Video" if (HEIC_BRANDS | GENERIC_BRANDS).isdisjoint(found) else "HEIC"


def _refused_text(head: bytes) -> str | None:
    if not _is_text(head[:_TEXT_SAMPLE]):
        return None
    if _HTML.search(head, 0, _TEXT_SAMPLE):
        return "HTML"
    return "SVG" if _SVG.search(head) else "Text"


def _is_text(sample: bytes) -> bool:
    """Whether it is UTF-8 without binary control characters; a character cut at the end is fine."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return _NOT_IN_TEXT.search(sample) is None


# The readers


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


_READERS: Final[dict[ImageFormat, Callable[[bytes], Size]]] = {
    ImageFormat.JPEG: jpeg_size,
    ImageFormat.PNG: png_size,
    ImageFormat.WEBP: webp_size,
    ImageFormat.GIF: gif_size,
    ImageFormat.AVIF: avif_size,
}
