"""What to tell whoever sends a file that is not accepted: what it is, and what to do about it.

Guarantees: pure; kinds that people do send are told by their first bytes and named; every refusal
ends in advice. Whoever refuses a picture later, where it is decoded, takes its words from here too.
"""

import codecs
import re
from typing import Final, Literal

from safelight.headers.boxes import brands
from safelight.headers.reading import Size

ACCEPTED: Final = "JPEG, PNG, WebP, GIF, AVIF or HEIC"
UPLOAD: Final = f"Upload a {ACCEPTED} image."
EXPORT: Final = "Export it as JPEG and upload that."
AGAIN: Final = "Send it again, or export it anew from the original."
DAMAGED: Final = f"The file is damaged or cut short: it cannot be decoded to its end. {AGAIN}"
_SMALLER: Final = "Export it smaller and upload that."

_RAW: Final = "a camera raw file"
_TIFF: Final = "a TIFF image"
# Pictures and drawings, which other programs turn into a JPEG. The first that fits gives the name.
_EXPORTABLE: Final = (
    (b"II*\x00\x10\x00\x00\x00CR", _RAW),
    (b"IIRO", _RAW),
    (b"IIRS", _RAW),
    (b"IIU\x00", _RAW),
    (b"FUJIFILMCCD-RAW", _RAW),
    (b"II*\x00", _TIFF),
    (b"MM\x00*", _TIFF),
    (b"II+\x00", _TIFF),
    (b"MM\x00+", _TIFF),
    (b"8BPS", "a Photoshop file"),
    (b"\x00\x00\x01\x00", "a Windows icon"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"\x00\x00\x00\x0cJXL ", "a JPEG XL image"),
    (b"\x00\x00\x00\x0cjP  ", "a JPEG 2000 image"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 image"),
    (b"%PDF-", "a PDF document"),
)
_RAW_BRAND: Final = b"crx "  # Canon's, in a container that videos have
_RAW_TAGS: Final = frozenset({0x014A, 0xC612})  # pictures below the first one; DNG's version
_MOST_TAGS: Final = 256
_ZIP: Final = b"PK\x03\x04"
_BMP: Final = re.compile(rb"BM....\x00\x00\x00\x00", re.DOTALL)
_HTML: Final = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_SVG: Final = re.compile(rb"<([a-z]+:)?svg[\s>/]|<!doctype\s+svg\s", re.IGNORECASE)
_NOT_IN_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_TEXT_SAMPLE: Final = 1024


def refusal(head: bytes) -> tuple[str, str]:
    """Of a file that is of no accepted kind: what it is, and what to do."""
    if not head:
        return "The file is empty.", UPLOAD
    if name := _exportable(head):
        return f"This is {name}, which is not accepted.", EXPORT
    if name := _something_else(head):
        return f"This is {name}, which is not accepted.", UPLOAD
    return "The file is not an accepted image.", UPLOAD


def too_many_pixels(most: int, size: Size | None = None, pixels: int = 0) -> str:
    """`pixels` is how many opening it takes, where that is more than it shows."""
    limit = f"at most {most / 1e6:g} megapixels are accepted. {_SMALLER}"
    if size is None:
        return f"The image has too many pixels; {limit}"
    width, height = size
    taken = max(pixels, width * height) / 1e6
    return f"The image is {width} × {height} pixels, {taken:.4g} megapixels to decode; {limit}"


def too_many_bytes(most: int) -> str:
    limit = f"{most / 1024**2:g} MiB" if most >= 1024**2 else f"{most} bytes"
    return f"The file is over the limit of {limit}. {_SMALLER}"


def _exportable(head: bytes) -> str | None:
    for signature, name in _EXPORTABLE:
        if head.startswith(signature):
            return _RAW if name is _TIFF and not _RAW_TAGS.isdisjoint(_tiff_tags(head)) else name
    if _BMP.match(head):
        return "a BMP image"
    if _RAW_BRAND in brands(head):
        return _RAW
    return "an SVG drawing" if _is_text(head) and not _is_page(head) and _SVG.search(head) else None


def _something_else(head: bytes) -> str | None:
    if brands(head):
        return "a video"
    if head.startswith(_ZIP):
        return "a ZIP archive"
    if not _is_text(head):
        return None
    return "a web page" if _is_page(head) else "text"


def _tiff_tags(head: bytes) -> set[int]:
    """Of the first directory, if it lies in `head`. Raw files of most cameras are TIFF, too."""
    order: Literal["little", "big"] = "little" if head.startswith(b"II") else "big"
    at = int.from_bytes(head[4:8], order)
    count = min(int.from_bytes(head[at : at + 2], order), _MOST_TAGS)
    starts = range(at + 2, at + 2 + 12 * count, 12)
    return {int.from_bytes(head[start : start + 2], order) for start in starts}


def _is_page(head: bytes) -> bool:
    return _HTML.search(head, 0, _TEXT_SAMPLE) is not None


def _is_text(head: bytes) -> bool:
    """Whether it is UTF-8 without binary control characters; a character cut at the end is fine."""
    sample = head[:_TEXT_SAMPLE]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return _NOT_IN_TEXT.search(sample) is None
