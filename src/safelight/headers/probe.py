"""What a file is: its type, its width and height, and how many pixels opening it takes.

Guarantees: pure; bounded work and flat memory, however large the file; nothing is raised but
`NotAnImage`; the size is the header's, before any rotation. Exactly JPEG, PNG, WebP, GIF, AVIF and
HEIC are known. Where a file says its size in several places (AVIF, HEIC, GIF), `pixels` is the
largest of them. This folder imports nothing else of Safelight: whoever opens bytes may ask it.
Known gaps: only a decoder can tell whether the data is sound. Of an animated GIF the first frame
counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from safelight.headers.boxes import (
    AVIF_BRANDS,
    GENERIC_BRANDS,
    HEIC_BRANDS,
    brands,
    brands_go_on,
)
from safelight.headers.heif import heif_header
from safelight.headers.raster import gif_sizes, jpeg_size, png_size, webp_size
from safelight.headers.reading import CutShort, Malformed, ReadAt, Reader, Size, Unsupported
from safelight.headers.refusals import AGAIN, EXPORT, refusal

HEADER_BYTES: Final = 65536  # enough for most files, and to tell what others are
ENOUGH_TO_DETECT: Final = 32
# Encoders come to 25,000 with a picture of one colour; beyond this it is made to cost, not to show.
MOST_PIXELS_PER_BYTE: Final = 50_000


class NotAnImage(ValueError):
    """The file is not an accepted image; the message tells its sender why, and what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason} {advice}")
        self.reason = reason  # for whoever did not get it from a person


class NotSupported(NotAnImage):
    """The file may well be sound, but no decoder here opens it."""


class HeaderTooLong(NotAnImage):
    """The file goes on, but the bytes given end before the size."""


class ImageFormat(StrEnum):
    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    GIF = "image/gif"
    AVIF = "image/avif"
    HEIC = "image/heic"

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
    pixels: int  # that opening it takes; at least width times height

    def check_density(self, size_bytes: int) -> None:
        """Refuses a picture that is far too large for its bytes. It stops the cheapest bombs only,
        since a file can be padded; what may be decoded is limited where that happens."""
        if self.pixels > size_bytes * MOST_PIXELS_PER_BYTE:
            raise NotAnImage(
                f"The file has {size_bytes} bytes for {self.width} × {self.height} pixels, which"
                " is too little for a photograph.",
                AGAIN,
            )


def detect(head: bytes) -> ImageFormat | None:
    """By signature alone; from `ENOUGH_TO_DETECT` bytes on, None is final.

    Whether a file is AVIF or HEIC is decided by what it holds, so either may turn out the other.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return ImageFormat.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageFormat.PNG
    if head.startswith((b"GIF87a", b"GIF89a")):
        return ImageFormat.GIF
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return ImageFormat.WEBP
    return _detect_by_brands(head)


def _detect_by_brands(head: bytes) -> ImageFormat | None:
    found = brands(head)
    if not AVIF_BRANDS.isdisjoint(found):
        return ImageFormat.AVIF
    may_be = not (HEIC_BRANDS | GENERIC_BRANDS).isdisjoint(found)
    return ImageFormat.HEIC if may_be or (found and brands_go_on(head)) else None


def read_header(head: bytes, *, complete: bool) -> ImageHeader:
    """`head` is the start of the file; `complete` says that the file ends with it."""
    return _read(Reader.of(head, complete=complete), len(head), complete=complete)


def read_file_header(read_at: ReadAt) -> ImageHeader:
    """Of a whole file, whose bytes are fetched where they are needed."""
    return _read(Reader(read_at), 0, complete=True)


def _read(file: Reader, length: int, *, complete: bool) -> ImageHeader:
    image_format = detect(file.some(0, HEADER_BYTES))
    if image_format is None:
        raise NotAnImage(*refusal(file.some(0, HEADER_BYTES)))
    try:
        image_format, (width, height), pixels = _sizes(image_format, file)
    except CutShort:
        raise _cut_short(image_format, length, complete=complete) from None
    except Unsupported as reason:
        words = f"The {image_format.label} file is not supported: it {reason}."
        raise NotSupported(words, EXPORT) from None
    except Malformed as reason:
        raise NotAnImage(f"The {image_format.label} file is damaged: it {reason}.", AGAIN) from None
    if width == 0 or height == 0:
        raise NotAnImage(f"The {image_format.label} file gives a width or height of zero.", AGAIN)
    kind = image_format.mime_type, image_format.extension
    return ImageHeader(*kind, width, height, max(pixels, width * height))


def _sizes(image_format: ImageFormat, file: Reader) -> tuple[ImageFormat, Size, int]:
    if image_format in {ImageFormat.AVIF, ImageFormat.HEIC}:
        header = heif_header(file)
        found = ImageFormat.AVIF if header.is_avif else ImageFormat.HEIC
        return found, header.size, header.pixels
    if image_format is ImageFormat.GIF:
        return image_format, *gif_sizes(file)
    return image_format, _READERS[image_format](file), 0


def _cut_short(image_format: ImageFormat, length: int, *, complete: bool) -> NotAnImage:
    if complete:
        return NotAnImage(
            f"The {image_format.label} file is cut short: it ends before its width and height.",
            AGAIN,
        )
    return HeaderTooLong(
        f"The {image_format.label} file does not give its width and height in its first"
        f" {length} bytes.",
        "Save it with less embedded metadata.",
    )


_READERS: Final[dict[ImageFormat, Callable[[Reader], Size]]] = {
    ImageFormat.JPEG: jpeg_size,
    ImageFormat.PNG: png_size,
    ImageFormat.WEBP: webp_size,
}
