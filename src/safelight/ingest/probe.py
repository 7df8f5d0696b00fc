"""What an uploaded file is, from its first bytes: the type, the width and the height.

Guarantees: pure; time linear in the bytes given; nothing is raised but `NotAnImage`; the size is
the header's, before any rotation. Exactly JPEG, PNG, WebP, GIF and AVIF are known.
Known gap: a JPEG whose metadata (colour profile, depth map, extended XMP) fills the first
`HEADER_BYTES` raises `HeaderTooLong`; giving `read_header` more of the file then helps.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from safelight.ingest.avif import GENERIC_BRANDS, HEIC_BRANDS, avif_size, brands, may_be_avif
from safelight.ingest.headers import (
    CutShort,
    Malformed,
    Size,
    gif_size,
    jpeg_size,
    png_size,
    webp_size,
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


_READERS: Final[dict[ImageFormat, Callable[[bytes], Size]]] = {
    ImageFormat.JPEG: jpeg_size,
    ImageFormat.PNG: png_size,
    ImageFormat.WEBP: webp_size,
    ImageFormat.GIF: gif_size,
    ImageFormat.AVIF: avif_size,
}

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
