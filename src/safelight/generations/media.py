"""What a result is, from its first bytes: whatever a provider says it is, is not believed. Pure."""

from dataclasses import dataclass

from safelight.headers.boxes import AVIF_BRANDS, GENERIC_BRANDS, HEIC_BRANDS, brands
from safelight.headers.probe import (
    HEADER_BYTES,
    HeaderTooLong,
    ImageFormat,
    NotAnImage,
    detect,
    read_header,
)

ACCEPTED = "JPEG, PNG, WebP, GIF, AVIF, MP4 or WebM"
HEAD_BYTES = HEADER_BYTES
# An upload may be of a kind that no result is.
_KEPT = frozenset(
    {ImageFormat.JPEG, ImageFormat.PNG, ImageFormat.WEBP, ImageFormat.GIF, ImageFormat.AVIF}
)
_EBML = b"\x1a\x45\xdf\xa3"
_DOC_TYPE = b"\x42\x82"
_STILLS = AVIF_BRANDS | HEIC_BRANDS | GENERIC_BRANDS
_MP4_BRANDS = (b"iso", b"mp4", b"avc", b"M4V", b"dash", b"MSNV", b"hvc", b"av01", b"f4v", b"cmf")


class NotMedia(ValueError):
    """The bytes are not of a kind that is kept."""


@dataclass(frozen=True, slots=True)
class Recognized:
    content_type: str
    width: int | None = None
    height: int | None = None
    seconds: float | None = None

    @property
    def is_clip(self) -> bool:
        return self.content_type.startswith("video/")


def recognize(head: bytes, *, complete: bool) -> Recognized:
    """`head` is the start of the bytes; `complete` says that they end with it."""
    if _is_mp4(head):
        return Recognized("video/mp4")
    if _is_webm(head):
        return Recognized("video/webm")
    image_format = detect(head)
    if image_format not in _KEPT:
        raise NotMedia(f"What the provider delivered is not {ACCEPTED}.")
    try:
        header = read_header(head, complete=complete)
    except HeaderTooLong:
        return Recognized(image_format.mime_type)
    except NotAnImage as error:
        raise NotMedia(f"What the provider delivered cannot be kept: {error.reason}") from error
    return Recognized(header.mime_type, header.width, header.height)


def file_name(artifact_id: str, content_type: str) -> str:
    """What a result is called when it is saved."""
    kind = content_type.partition("/")[2]
    return f"{artifact_id}.{'jpg' if kind == 'jpeg' else kind}"


def _is_mp4(head: bytes) -> bool:
    found = brands(head)
    if not found or not _STILLS.isdisjoint(found):
        return False
    return any(brand.startswith(_MP4_BRANDS) for brand in found)


def _is_webm(head: bytes) -> bool:
    """EBML's header names its document type: webm, and not Matroska at large."""
    if not head.startswith(_EBML):
        return False
    at = head.find(_DOC_TYPE, 4, 64)
    return at > 0 and head[at + 3 : at + 7] == b"webm"
