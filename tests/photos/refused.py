"""Files that people send and that are refused, each with the words that tell what it is. What else
has to be in every refusal is what to do about it."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from headers.heif_files import HEIC, Part, heif, hevc, ispe, still
from photos import containers as box
from photos.corpus import saved, scene

ADVICE: Final = ("Export it", "export it", "Upload a")


@dataclass(frozen=True)
class Refused:
    name: str
    data: bytes
    words: str
    code: str = "INVALID_FILE_TYPE"

    def __str__(self) -> str:
        return self.name


@cache
def refused() -> tuple[Refused, ...]:
    """At once, by what the header says."""
    return (*(Refused(*one) for one in (*_other_kinds(), *_not_supported())), _large())


@cache
def undecodable() -> tuple[Refused, ...]:
    """Later, by whoever decodes them: the header is sound."""
    whole = saved(scene(), "JPEG")
    files = {
        "jpeg cut short": whole[: len(whole) // 2],
        "jpeg without its end": whole.removesuffix(b"\xff\xd9"),
        "png cut short": saved(scene(), "PNG")[:-40],
        "webp cut short": saved(scene(), "WEBP")[:-40],
    }
    return tuple(
        Refused(name, data, "The file is damaged or cut short", "UNDECODABLE")
        for name, data in files.items()
    )


def _other_kinds() -> Iterator[tuple[str, bytes, str]]:
    raw = "This is a camera raw file"
    yield "cr3", box.box(b"ftyp", b"crx ", bytes(4), b"crx isom") + bytes(99), raw
    yield "cr2", b"II*\0\x10\0\0\0CR\2\0" + bytes(99), raw
    yield "dng", b"II*\0\x08\0\0\0\1\0" + struct.pack("<HHII", 0xC612, 1, 4, 1) + bytes(99), raw
    yield "nef", b"MM\0*\0\0\0\x08\0\1" + struct.pack(">HHII", 0x014A, 4, 1, 0) + bytes(99), raw
    yield "tiff", saved(scene(), "TIFF"), "This is a TIFF image"
    yield "bmp", saved(scene(), "BMP"), "This is a BMP image"
    yield "ico", saved(scene(), "ICO"), "This is a Windows icon"
    yield "jpeg 2000", saved(scene(), "JPEG2000"), "This is a JPEG 2000 image"
    yield "jpeg xl", b"\xff\x0a\xfa\x1f\x41" + bytes(99), "This is a JPEG XL image"
    yield "psd", b"8BPS\0\1" + bytes(99), "This is a Photoshop file"
    yield "pdf", saved(scene(), "PDF"), "This is a PDF document"
    yield "svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "This is an SVG drawing"
    yield "video", box.clip(), "This is a video"


def _not_supported() -> Iterator[tuple[str, bytes, str]]:
    plain, png = saved(scene(), "JPEG"), saved(scene(), "PNG")
    at = plain.index(b"\xff\xc0") + 5
    later = plain[:at] + b"\0\0" + plain[at + 2 :]
    yield "jpeg that tells its height last", later, "The JPEG file is not supported"
    app = png[:8] + box.png_chunk(b"CgBI", b"\x50\0\x20\2") + png[8:]
    yield "png of an app", app, "The PNG file is not supported"
    for kind in (b"iden", b"iovl"):
        shown = Part(kind, bytes(18), (ispe(64, 64),), made_of=(2,))
        data = heif(shown, still(hevc(64, 64), (64, 64)), brands=HEIC)
        yield f"heic {kind.decode()}", data, "The HEIC file is not supported"


def _large() -> Refused:
    """A phone's 108 megapixels."""
    header = struct.pack(">IIBBBBB", 12_000, 9_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + box.png_chunk(b"IHDR", header) + bytes(9_000)
    words = "12000 × 9000 pixels, 108 megapixels to decode; at most 100 megapixels are accepted"
    return Refused("png of 108 megapixels", data, words, "FILE_TOO_LARGE")
