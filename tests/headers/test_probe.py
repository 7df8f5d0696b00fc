"""Real files of the six formats, files of others, and everything in between."""

import io
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pi_heif
import pytest
import skimage
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features

from headers.heif_files import HEIC, av1, ftyp, heic, hevc, open_ended, tiled
from safelight.headers.probe import (
    ENOUGH_TO_DETECT,
    HEADER_BYTES,
    HeaderTooLong,
    ImageFormat,
    ImageHeader,
    NotAnImage,
    detect,
    read_file_header,
    read_header,
)

unhurried = settings(deadline=None)

KINDS = {
    "JPEG": ("image/jpeg", "jpg"),
    "PNG": ("image/png", "png"),
    "WEBP": ("image/webp", "webp"),
    "GIF": ("image/gif", "gif"),
    "AVIF": ("image/avif", "avif"),
    "HEIF": ("image/heic", "heic"),
}
MODES = {
    "JPEG": ["L", "RGB", "CMYK"],
    "PNG": ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"],
    "WEBP": ["RGB", "RGBA"],
    "GIF": ["L", "P", "RGB"],
    "AVIF": ["L", "RGB", "RGBA"],
}
SIZES = [(1, 1), (2, 1), (1, 300), (17, 9), (64, 64), (257, 3)]
PHOTOGRAPHS = sorted(
    path
    for path in (Path(skimage.__file__).parent / "data").iterdir()
    if path.suffix in {".png", ".jpg", ".gif"}
)


@cache
def made(kind: str, mode: str = "RGB", size: tuple[int, int] = (40, 30), **options: Any) -> bytes:
    speed = {"speed": 10} if kind == "AVIF" else {}
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind, **speed, **options)
    return file.getvalue()


@cache
def animated(kind: str) -> bytes:
    frames = [Image.new("RGB", (50, 20), colour) for colour in ("red", "green", "blue")]
    speed = {"speed": 10} if kind == "AVIF" else {}
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], **speed)
    return file.getvalue()


@cache
def with_thumbnail() -> bytes:
    """A photograph whose EXIF data holds a whole JPEG file of another size, and a rotation."""
    thumbnail = made("JPEG", size=(160, 120))
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0x927C] = thumbnail
    return made("JPEG", size=(400, 300), exif=exif.tobytes())


def samples() -> dict[str, bytes]:
    return {
        **{kind: made(kind) for kind in MODES},
        "HEIF": heic(),
        "tiles": tiled(hevc(64, 64), 3, 2, (180, 100), brands=HEIC),
        "AVIF tiles": tiled(av1(64, 64), 3, 2, (180, 100)),
        "AVIF open": open_ended(made("AVIF")),
        "HEIF open": open_ended(heic()),
        "AVIF padded": made("AVIF") + bytes(16),
        "HEIF padded": heic() + bytes(9),
        "progressive": made("JPEG", progressive=True),
        "thumbnail": with_thumbnail(),
        "VP8L": made("WEBP", lossless=True),
        "VP8X": made("WEBP", "RGBA", exif=b"Exif\0\0"),
        **{f"animated {kind}": animated(kind) for kind in ("PNG", "WEBP", "GIF", "AVIF")},
        "empty screen": made("GIF")[:6] + bytes(4) + made("GIF")[10:],
    }


def probe(data: bytes) -> ImageHeader:
    return read_file_header(lambda at, length: data[at : at + length])


def header_of(kind: str, width: int, height: int) -> ImageHeader:
    return ImageHeader(*KINDS[kind], width, height, width * height)


def outcome(head: bytes, *, complete: bool) -> ImageHeader | NotAnImage:
    try:
        return read_header(head, complete=complete)
    except NotAnImage as refused:
        return refused


def decoded(data: bytes) -> tuple[str, tuple[int, int]]:
    """As the decoders see it: kind and size."""
    if pi_heif.is_supported(data) and detect(data) is ImageFormat.HEIC:
        return "HEIF", pi_heif.open_heif(io.BytesIO(data)).size
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return "JPEG" if image.format == "MPO" else str(image.format), image.size


def agrees_with_decoders(data: bytes) -> bool:
    kind, size = decoded(data)
    found = probe(data)
    return (found.mime_type, found.extension, found.width, found.height) == (*KINDS[kind], *size)


def test_pillow_writes_all_but_heic_here() -> None:
    assert features.check("webp")
    assert features.check("avif")
    assert features.check("jpg")


@pytest.mark.parametrize(
    ("kind", "mode"), [(k, mode) for k, modes in MODES.items() for mode in modes]
)
def test_sizes_and_modes(kind: str, mode: str) -> None:
    for size in SIZES:
        assert probe(made(kind, mode, size)) == header_of(kind, *size)


@pytest.mark.parametrize("name", list(samples()))
def test_variants_have_the_size_that_decoders_see(name: str) -> None:
    data = samples()[name]
    assert agrees_with_decoders(data)


@pytest.mark.parametrize("path", PHOTOGRAPHS, ids=lambda path: path.name)
def test_photographs(path: Path) -> None:
    assert agrees_with_decoders(path.read_bytes())


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF"])
def test_a_photograph_written_again(kind: str) -> None:
    chelsea = next(path for path in PHOTOGRAPHS if path.name == "chelsea.png")
    with Image.open(chelsea) as image:
        file = io.BytesIO()
        image.save(file, kind, **({"speed": 10} if kind == "AVIF" else {}))
    assert probe(file.getvalue()) == header_of(kind, 451, 300)


def test_rotation_is_left_to_others() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG", "WEBP", "AVIF"):
        assert probe(made(kind, size=(40, 10), exif=exif.tobytes())).width == 40


@pytest.mark.parametrize("name", list(samples()))
def test_every_truncation_is_refused_or_gives_the_right_size(name: str) -> None:
    data = samples()[name]
    whole = probe(data)
    for complete in (True, False):
        lengths = range(min(len(data), 3000) + 1)
        outcomes = [outcome(data[:length], complete=complete) for length in lengths]
        refused = [found for found in outcomes if isinstance(found, NotAnImage)]
        assert outcomes[len(refused) :] == [whole] * (len(outcomes) - len(refused))
        # All of an AVIF or HEIC file is stepped through, so its start alone never says enough.
        assert (len(refused) < len(outcomes)) or not complete
        assert complete != any(isinstance(reason, HeaderTooLong) for reason in refused)


@pytest.mark.parametrize("name", list(samples()))
def test_detection_needs_only_the_first_bytes(name: str) -> None:
    data = samples()[name]
    found = detect(data)
    assert found is not None
    assert (found.mime_type, found.extension) == (probe(data).mime_type, probe(data).extension)
    assert {detect(data[:length]) for length in range(ENOUGH_TO_DETECT, 200)} == {found}


def test_detection_ignores_what_comes_after() -> None:
    for name, data in samples().items():
        head = data[:ENOUGH_TO_DETECT]
        assert detect(head + bytes(1000)) == detect(head), name


def test_formats_know_their_words() -> None:
    assert [(f.mime_type, f.extension) for f in ImageFormat] == list(KINDS.values())
    assert [f.label for f in ImageFormat] == ["JPEG", "PNG", "WebP", "GIF", "AVIF", "HEIC"]


def written(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, kind)
    return file.getvalue()


def tiff(*tags: int, order: str = ">") -> bytes:
    """Its first directory, with nothing in it but what fields it has."""
    mark = b"MM\0*" if order == ">" else b"II*\0"
    fields = b"".join(struct.pack(f"{order}HHII", tag, 4, 1, 0) for tag in tags)
    return mark + struct.pack(f"{order}IH", 8, len(tags)) + fields + bytes(4)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (written("TIFF"), "a TIFF image"),
        (tiff(0x0100, 0x0101), "a TIFF image"),
        (b"MM\0*\0\0\0\x08", "a TIFF image"),
        (b"MM\0*\xff\xff\xff\xff", "a TIFF image"),
        (b"II+\0\x08\0\0\0", "a TIFF image"),
        (tiff(0x00FE, 0xC612, order="<"), "a camera raw file"),
        (tiff(0x00FE, 0x014A), "a camera raw file"),
        (b"II*\0\x10\0\0\0CR\2\0" + bytes(40), "a camera raw file"),
        (b"IIRO\x08\0\0\0", "a camera raw file"),
        (b"IIU\0\x18\0\0\0", "a camera raw file"),
        (b"FUJIFILMCCD-RAW 0201", "a camera raw file"),
        (ftyp(b"crx ", b"crx ", b"isom"), "a camera raw file"),
        (written("BMP"), "a BMP image"),
        (written("ICO"), "a Windows icon"),
        (written("JPEG2000"), "a JPEG 2000 image"),
        (b"\xff\x0a\x08\x10", "a JPEG XL image"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL image"),
        (b"8BPS\0\1", "a Photoshop file"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "an SVG drawing"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a -->\n<svg width='9'>", "an SVG drawing"),
        (b"<?xml version='1.0'?><s:svg xmlns:s='http://www.w3.org/2000/svg'>", "an SVG drawing"),
    ],
)
def test_what_can_be_exported_is_named_and_refused(data: bytes, what: str) -> None:
    assert detect(data) is None
    assert refusal_of(data) == (
        f"This is {what}, which is not accepted. Export it as JPEG and upload that."
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "The file is empty."),
        (b"holiday photograph, honest", "This is text, which is not accepted."),
        ("Grüße ".encode() * 200, "This is text, which is not accepted."),
        (b"<!DOCTYPE html><html><svg></svg>", "This is a web page, which is not accepted."),
        (ftyp(b"isom", b"isom", b"mp42"), "This is a video, which is not accepted."),
        (b"PK\x03\x04\x14\0", "This is a ZIP archive, which is not accepted."),
        (b"RIFF\x24\0\0\0WAVEfmt ", "The file is not an accepted image."),
        (b"BMW is a car\0", "The file is not an accepted image."),
        (bytes(100), "The file is not an accepted image."),
        (b"\xff\xd8", "The file is not an accepted image."),
        (b"GIF88a" + bytes(20), "The file is not an accepted image."),
        (b"\x89PNG\r\r\n" + bytes(40), "The file is not an accepted image."),
    ],
)
def test_other_files_are_named_and_refused(data: bytes, words: str) -> None:
    assert detect(data) is None
    assert refusal_of(data) == f"{words} Upload a JPEG, PNG, WebP, GIF, AVIF or HEIC image."


def refusal_of(data: bytes) -> str:
    with pytest.raises(NotAnImage) as caught:
        read_header(data, complete=True)
    return str(caught.value)


def test_a_head_that_is_not_the_whole_file_may_be_too_short() -> None:
    profile = b"\xff\xe2\xff\xff" + b"ICC_PROFILE\0" + bytes(0xFFFF - 14)
    large = made("JPEG")[:2] + profile * 3 + made("JPEG")[2:]
    with pytest.raises(HeaderTooLong, match="first 65536 bytes"):
        read_header(large[:HEADER_BYTES], complete=False)
    assert probe(large).width == 40


def test_a_file_that_ends_too_early_says_so() -> None:
    with pytest.raises(NotAnImage, match="JPEG file is cut short"):
        read_header(made("JPEG")[:20], complete=True)


def refused_or_sound(head: bytes, *, complete: bool) -> None:
    found = outcome(head, complete=complete)
    if isinstance(found, NotAnImage):
        assert str(found).endswith(".")
        assert len(str(found)) < 200
    else:
        assert (found.mime_type, found.extension) in KINDS.values()
        assert found.width > 0
        assert found.height > 0


SIGNATURES = [
    b"",
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"GIF89a\0\0\0\0",
    b"RIFF\0\0\0\0WEBPVP8",
]
FTYP = b"\0\0\0\x14ftypavis\0\0\0\0avif"


@unhurried
@given(st.sampled_from([*SIGNATURES, FTYP]), st.binary(max_size=600), st.booleans())
def test_random_bytes(signature: bytes, rest: bytes, complete: bool) -> None:
    refused_or_sound(signature + rest, complete=complete)


@unhurried
@given(st.binary(max_size=80) | st.sampled_from(sorted(samples().values())), st.binary(max_size=80))
def test_a_type_ruled_out_early_stays_ruled_out(head: bytes, more: bytes) -> None:
    early = (head + more)[:ENOUGH_TO_DETECT]
    if len(early) == ENOUGH_TO_DETECT and (final := detect(head + more)):
        assert detect(early) == final


@pytest.mark.parametrize(
    "head",
    [
        b"\xff\xd8" + b"\xff\xd0" * 32767,
        b"\xff\xd8" + b"\xff" * 65534,
        b"\xff\xd8" + b"\xff\xe0\0\2" * 16383,
        b"\xff\xd8\xff\xe0\0\2" + b"\xff\0" * 32765,
        b"GIF89a\0\0\0\0\0\0\0" + b"!\0\0" * 21841,
        b"GIF89a\0\0\0\0\0\0\0!\0" + b"\1\0" * 32760,
        b"\0\1\0\0ftypmif1\0\0\0\0" + b"mif1" * 16380,
        FTYP + b"\0\0\0\x08free" * 8189,
        FTYP + b"\0\0\0\x0cmeta\0\0\0\0" * 5459,
        FTYP + b"\0\0\xff\xecmeta\0\0\0\0" + b"\0\0\0\x08iprp" * 8188,
        FTYP + b"\0\0\xff\xe8moov" + b"\0\0\0\x08trak" * 8188,
        b"<" * 65536,
        b"<!doctype " + b" " * 65526,
        b"<a" * 32768,
    ],
    ids=range(14),
)
def test_hostile_heads_are_refused(head: bytes) -> None:
    with pytest.raises(NotAnImage):
        read_header(head, complete=False)
