"""Real files of the five formats, files of others, and everything in between."""

import io
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import skimage
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features

from safelight.ingest.probe import (
    ENOUGH_TO_DETECT,
    HEADER_BYTES,
    HeaderTooLong,
    ImageFormat,
    ImageHeader,
    NotAnImage,
    detect,
    read_header,
)

unhurried = settings(deadline=None)

KINDS = {
    "JPEG": ("image/jpeg", "jpg"),
    "PNG": ("image/png", "png"),
    "WEBP": ("image/webp", "webp"),
    "GIF": ("image/gif", "gif"),
    "AVIF": ("image/avif", "avif"),
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
        **{kind: made(kind) for kind in KINDS},
        "progressive": made("JPEG", progressive=True),
        "thumbnail": with_thumbnail(),
        "VP8L": made("WEBP", lossless=True),
        "VP8X": made("WEBP", "RGBA", exif=b"Exif\0\0"),
        **{f"animated {kind}": animated(kind) for kind in ("PNG", "WEBP", "GIF", "AVIF")},
        "empty screen": made("GIF")[:6] + bytes(4) + made("GIF")[10:],
    }


def probe(data: bytes) -> ImageHeader:
    return read_header(data[:HEADER_BYTES], complete=len(data) <= HEADER_BYTES)


def outcome(head: bytes, *, complete: bool) -> ImageHeader | NotAnImage:
    try:
        return read_header(head, complete=complete)
    except NotAnImage as refused:
        return refused


def agrees_with_pillow(data: bytes) -> bool:
    with Image.open(io.BytesIO(data)) as image:
        kind = "JPEG" if image.format == "MPO" else str(image.format)
        return probe(data) == ImageHeader(*KINDS[kind], *image.size)


def test_pillow_writes_all_five_here() -> None:
    assert features.check("webp")
    assert features.check("avif")
    assert features.check("jpg")


@pytest.mark.parametrize(
    ("kind", "mode"), [(k, mode) for k, modes in MODES.items() for mode in modes]
)
def test_sizes_and_modes(kind: str, mode: str) -> None:
    for size in SIZES:
        assert probe(made(kind, mode, size)) == ImageHeader(*KINDS[kind], *size)


@pytest.mark.parametrize("name", list(samples()))
def test_variants_have_the_size_that_pillow_sees(name: str) -> None:
    data = samples()[name]
    assert agrees_with_pillow(data)


@pytest.mark.parametrize("path", PHOTOGRAPHS, ids=lambda path: path.name)
def test_photographs(path: Path) -> None:
    assert agrees_with_pillow(path.read_bytes())


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF"])
def test_a_photograph_written_again(kind: str) -> None:
    chelsea = next(path for path in PHOTOGRAPHS if path.name == "chelsea.png")
    with Image.open(chelsea) as image:
        file = io.BytesIO()
        image.save(file, kind, **({"speed": 10} if kind == "AVIF" else {}))
    assert probe(file.getvalue()) == ImageHeader(*KINDS[kind], 451, 300)


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
        lengths = range(min(len(data), 3000))
        outcomes = [outcome(data[:length], complete=complete) for length in lengths]
        refused = [found for found in outcomes if isinstance(found, NotAnImage)]
        assert outcomes[len(refused) :] == [whole] * (len(outcomes) - len(refused))
        assert len(refused) < len(outcomes)
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
    assert [f.label for f in ImageFormat] == ["JPEG", "PNG", "WebP", "GIF", "AVIF"]


def written(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "The file is empty"),
        (b"holiday photograph, honest", "Text is not accepted"),
        ("Grüße ".encode() * 200, "Text is not accepted"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG is not accepted"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a -->\n<svg width='9'>", "SVG is not accepted"),
        (
            b"<?xml version='1.0'?><s:svg xmlns:s='http://www.w3.org/2000/svg'>",
            "SVG is not accepted",
        ),
        (b"<!DOCTYPE html><html><svg></svg>", "HTML is not accepted"),
        (b"%PDF-1.7\n%\xe2\xe3", "PDF is not accepted"),
        (written("TIFF"), "TIFF is not accepted"),
        (b"MM\0*\0\0\0\x08", "TIFF is not accepted"),
        (written("BMP"), "BMP is not accepted"),
        (written("ICO"), "Windows icon is not accepted"),
        (written("JPEG2000"), "JPEG 2000 is not accepted"),
        (b"\xff\x0a\x08\x10", "JPEG XL is not accepted"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC is not accepted"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC is not accepted"),
        (b"\0\0\0\x14ftypmif1\0\0\0\0mif1", "HEIC is not accepted"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "Video is not accepted"),
        (b"PK\x03\x04\x14\0", "ZIP is not accepted"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "The file is not an accepted image"),
        (b"BMW is a car\0", "The file is not an accepted image"),
        (bytes(100), "The file is not an accepted image"),
        (b"\xff\xd8", "The file is not an accepted image"),
        (b"GIF88a" + bytes(20), "The file is not an accepted image"),
        (b"\x89PNG\r\r\n" + bytes(40), "The file is not an accepted image"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_files_are_named_and_refused(data: bytes, words: str) -> None:
    assert detect(data) is None
    with pytest.raises(NotAnImage) as caught:
        read_header(data, complete=True)
    assert str(caught.value) == f"{words}: send a JPEG, PNG, WebP, GIF or AVIF image."


def test_a_head_that_is_not_the_whole_file_may_be_too_short() -> None:
    profile = b"\xff\xe2\xff\xff" + b"ICC_PROFILE\0" + bytes(0xFFFF - 14)
    large = made("JPEG")[:2] + profile * 3 + made("JPEG")[2:]
    with pytest.raises(HeaderTooLong, match="first 65536 bytes"):
        probe(large)
    assert read_header(large, complete=True).width == 40


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
BOX_WORDS = [
    b"meta",
    b"moov",
    b"trak",
    b"tkhd",
    b"pitm",
    b"iprp",
    b"ipco",
    b"ipma",
    b"ispe",
    b"\0\0\0",
    b"\1",
    b"\x10",
]


@unhurried
@given(st.sampled_from([*SIGNATURES, FTYP]), st.binary(max_size=600), st.booleans())
def test_random_bytes(signature: bytes, rest: bytes, complete: bool) -> None:
    refused_or_sound(signature + rest, complete=complete)


@unhurried
@given(st.lists(st.sampled_from(BOX_WORDS) | st.binary(max_size=9), max_size=60))
def test_random_boxes(words: list[bytes]) -> None:
    refused_or_sound(FTYP + b"".join(words), complete=True)


@unhurried
@given(
    st.sampled_from(sorted(samples())),
    st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=5), st.integers(0, 5)), max_size=6),
)
def test_mutated_files(name: str, edits: list[tuple[int, bytes, int]]) -> None:
    head = samples()[name]
    for at, added, removed in edits:
        head = head[:at] + added + head[at + removed :]
    refused_or_sound(head[:HEADER_BYTES], complete=True)


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
def test_hostile_heads_are_refused_quickly(head: bytes) -> None:
    began = time.perf_counter()
    for _ in range(5):
        with pytest.raises(NotAnImage):
            read_header(head, complete=False)
    assert time.perf_counter() - began < 5
