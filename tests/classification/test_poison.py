"""Nothing a stranger sends may raise anything but Undecodable, or take long."""

import random
import struct
import time
import tracemalloc
import zlib

import pytest
from PIL import Image

from classification.images import (
    FORMATS,
    encoded,
    gif_with_frame,
    many_scans,
    opened,
    photo,
    plain,
    png,
    png_chunk,
)
from safelight.classification.base import Undecodable
from safelight.classification.preprocess import Decoder
from safelight.headers.refusals import AGAIN, DAMAGED, EXPORT, UPLOAD

LIMIT = 100_000_000
SMALL = opened(photo("cat")).resize((120, 80))
SLOWEST = 10.0  # seconds; a decode of these takes milliseconds


def survives(data: bytes, limit: int = LIMIT) -> bool:
    """True if it was decoded, False if it was refused; anything else fails the test."""
    started = time.monotonic()
    try:
        with Decoder(limit).decoded(data) as picture:
            picture.square(224, 0.875, Image.Resampling.BICUBIC)
            picture.thumbnail()
    except Undecodable:
        return False
    finally:
        assert time.monotonic() - started < SLOWEST
    return True


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_cut_short_anywhere_is_refused(kind: str) -> None:
    data = encoded(SMALL, kind)
    for length in sorted({*range(64), *range(64, len(data) - 64, max(1, len(data) // 40))}):
        assert not survives(data[:length])


@pytest.mark.parametrize("kind", [*FORMATS, "progressive"])
def test_damaged_bytes_do_no_harm(kind: str) -> None:
    options = {"progressive": True} if kind == "progressive" else {}
    data = encoded(SMALL, "JPEG" if options else kind, **options)
    chance = random.Random(20)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        survives(bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"not an image at all",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xd9",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a\0\0\0\0\0\0\0;",
        b"RIFF\x04\0\0\0WEBP",
        b"RIFF\xff\xff\xff\xffWEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff",
        b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf",
        bytes(range(256)) * 100,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    assert not survives(data)


def refusal_of(data: bytes, limit: int = LIMIT) -> Undecodable:
    with pytest.raises(Undecodable) as refusal, Decoder(limit).decoded(data):
        pass
    assert refusal.value.code == "UNDECODABLE"
    return refusal.value


def cut(kind: str) -> bytes:
    return encoded(SMALL, kind)[:-40]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"garbage", f"This is text, which is not accepted. {UPLOAD}"),
        (encoded(SMALL, "TIFF"), f"This is a TIFF image, which is not accepted. {EXPORT}"),
        (
            b"\x89PNG\r\n\x1a\n",
            f"The PNG file is cut short: it ends before its width and height. {AGAIN}",
        ),
        *((cut(kind), DAMAGED) for kind in FORMATS),
        (encoded(SMALL, "JPEG").removesuffix(b"\xff\xd9"), DAMAGED),
    ],
)
def test_a_refusal_says_why_and_what_to_do(data: bytes, words: str) -> None:
    assert refusal_of(data).message == words


def test_the_decoders_own_words_are_kept_apart() -> None:
    refusal = refusal_of(cut("JPEG"))
    assert "truncated" in refusal.decoder
    assert "truncated" not in refusal.message


@pytest.mark.parametrize("limit", [9_599, 3_000])
def test_too_many_pixels_are_told_with_the_limit(limit: int) -> None:
    words = refusal_of(encoded(SMALL, "PNG"), limit).message
    assert f"at most {limit / 1e6:g} megapixels are accepted. Export it smaller" in words


@pytest.mark.parametrize("kind", ["TIFF", "BMP", "ICO", "PPM", "TGA", "PCX", "PDF"])
def test_formats_pillow_knows_but_we_do_not_accept_are_refused(kind: str) -> None:
    assert not survives(encoded(SMALL, kind))


@pytest.mark.parametrize(("width", "height"), [(0, 0), (0, 10), (10, 0), (1 << 31, 1)])
def test_a_png_without_an_area_is_refused(width: int, height: int) -> None:
    assert not survives(png(width, height))


def test_a_jpeg_without_a_height_is_refused() -> None:
    data = bytearray(encoded(SMALL, "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 7] = b"\0\0"
    assert not survives(bytes(data))


@pytest.mark.parametrize("size", [(20_000, 20_000), (15_000, 10_000), (60_000, 60_000)])
def test_more_pixels_than_allowed_are_refused_before_they_are_decoded(
    size: tuple[int, int],
) -> None:
    assert not survives(png(*size))


def test_a_limit_is_a_limit() -> None:
    data = plain("red", (100, 100))
    assert survives(data, 10_000)
    assert not survives(data, 9_999)
    assert not survives(data, 5_000)
    assert not survives(data, 10)


@pytest.mark.parametrize("side", [65_535, 12_000])
def test_a_gif_frame_larger_than_its_screen_counts(side: int) -> None:
    assert not survives(gif_with_frame(side, side))


def test_a_webp_that_claims_a_huge_canvas_is_refused() -> None:
    data = bytearray(encoded(Image.new("RGBA", (60, 40), (9, 9, 9, 9)), "WEBP"))
    assert data[12:16] == b"VP8X"
    data[24:30] = (16_382).to_bytes(3, "little") * 2
    assert not survives(bytes(data))


LARGE = zlib.compress(b"0" * 20_000_000)
NOTES = {
    b"zTXt": b"a\0\0" + LARGE,
    b"iCCP": b"a\0\0" + LARGE,
    b"iTXt": b"a\0\1\0\0\0" + LARGE,
    b"tEXt": b"a\0" + b"0" * 20_000_000,
}


@pytest.mark.parametrize("kind", NOTES)
@pytest.mark.parametrize("is_behind", [False, True])
def test_large_notes_are_left_out(kind: bytes, is_behind: bool) -> None:
    """They are no part of the picture, and none is unpacked beyond a few megabytes."""
    note = png_chunk(kind, NOTES[kind])
    whole = png(4, 4, rows=b"\0" * 52)
    at = whole.index(b"IEND" if is_behind else b"IDAT") - 4
    assert survives(whole[:at] + note + whole[at:])


def test_of_many_notes_the_first_are_kept() -> None:
    """In pieces that are small enough each."""
    text = zlib.compress(b"0" * 1_000_000)
    notes = [png_chunk(b"zTXt", b"%d\0\0" % number + text) for number in range(200)]
    tracemalloc.start()
    assert survives(png(4, 4, *notes, rows=b"\0" * 52))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 120_000_000


def test_a_note_in_an_unknown_packing_is_left_out() -> None:
    assert survives(png(4, 4, png_chunk(b"zTXt", b"a\0\7what"), rows=b"\0" * 52))


def test_pixels_that_compress_too_well_stop_at_the_claimed_size() -> None:
    assert survives(png(40, 40, rows=b"\0" * 20_000_000))


def test_a_jpeg_that_is_drawn_over_and_over_is_refused() -> None:
    assert survives(many_scans(600, 40))
    assert not survives(many_scans(3000, 400))
    assert not survives(many_scans(3000, 400)[:-2])


def test_scans_are_found_behind_more_notes_than_anybody_counts() -> None:
    data = many_scans(3000, 400)
    assert not survives(data[:2] + b"\xff\xfe\0\2" * 100_000 + data[2:])


def test_a_picture_with_many_small_parts_of_metadata() -> None:
    segment = b"\xff\xe1" + struct.pack(">H", 12) + b"Exif\0\0II*\0"
    data = encoded(SMALL, "JPEG")
    survives(data[:2] + segment * 20_000 + data[2:])
