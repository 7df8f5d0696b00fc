"""Headers made by hand: what no encoder writes, and what a hostile one would."""

import struct
import zlib

import pytest

from safelight.headers.probe import (
    HEADER_BYTES,
    ImageHeader,
    NotAnImage,
    read_file_header,
    read_header,
)
from safelight.headers.raster import MOST_JPEG_BYTES, MOST_JPEG_SEGMENTS, MOST_JPEG_STRAY


def size_of(head: bytes) -> tuple[int, int]:
    header = read_header(head, complete=True)
    return header.width, header.height


def refusal_of(head: bytes) -> str:
    with pytest.raises(NotAnImage) as caught:
        read_header(head, complete=True)
    return str(caught.value)


EXPORT = "Export it as JPEG and upload that."
AGAIN = "Send it again, or export it anew from the original."


def ihdr(width: int, height: int, rest: bytes = b"\x08\x02\0\0\0", kind: bytes = b"IHDR") -> bytes:
    body = kind + struct.pack(">II", width, height) + rest
    crc = struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(body) - 4) + body + crc


def segment(marker: int, body: bytes = b"") -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def frame(marker: int, width: int, height: int, components: int = 3) -> bytes:
    return segment(
        marker, struct.pack(">BHHB", 8, height, width, components) + bytes(3 * components)
    )


def jpeg(*segments: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segments)


def webp(kind: bytes, body: bytes) -> bytes:
    return (
        b"RIFF"
        + struct.pack("<I", len(body) + 12)
        + b"WEBP"
        + kind
        + struct.pack("<I", len(body))
        + body
    )


def vp8l(width: int, height: int, version: int = 0) -> bytes:
    bits = (width - 1) | (height - 1) << 14 | version << 29
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", bits))


def gif(width: int, height: int, flags: int = 0, rest: bytes = b"") -> bytes:
    return b"GIF89a" + struct.pack("<HHB", width, height, flags) + b"\0\0" + rest


def gif_frame(width: int, height: int) -> bytes:
    return b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)


def test_a_png_that_is_only_its_header_gives_its_size() -> None:
    head = ihdr(60_000, 60_000)
    assert read_header(head, complete=True) == ImageHeader(
        "image/png", "png", 60_000, 60_000, 60_000**2
    )
    assert size_of(ihdr(2**31 - 1, 1)) == (2**31 - 1, 1)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (ihdr(0, 10), "width or height of zero"),
        (ihdr(10, 0), "width or height of zero"),
        (ihdr(2**31, 1), "PNG does not allow"),
        (ihdr(9, 9)[:-1] + b"!", "checksum does not match"),
        (ihdr(9, 9, kind=b"IDAT"), "IHDR"),
        (ihdr(9, 9, rest=b"\x08\x02\0\0\0\0"), "IHDR"),
        (ihdr(9, 9, rest=b"\x08\x07\0\0\0"), "pixel format"),
        (ihdr(9, 9, rest=b"\x10\x03\0\0\0"), "pixel format"),
        (ihdr(9, 9, rest=b"\x08\x02\1\0\0"), "pixel format"),
        (ihdr(9, 9, rest=b"\x08\x02\0\0\2"), "pixel format"),
    ],
)
def test_png_headers_that_are_refused(head: bytes, words: str) -> None:
    assert words in refusal_of(head)
    assert refusal_of(head).endswith(AGAIN)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\4CgBI\x50\0\x20\2" + ihdr(9, 9)[8:], "iOS app (CgBI)"),
        (jpeg(frame(0xC0, 640, 0)), "leaves its height to the end (DNL)"),
        (jpeg(segment(0xE1) * 4097), "more than 4,096 segments"),
    ],
)
def test_sound_files_that_are_refused(head: bytes, words: str) -> None:
    """They are not called damaged."""
    assert "file is not supported: it " in refusal_of(head)
    assert words in refusal_of(head)
    assert refusal_of(head).endswith(EXPORT)


@pytest.mark.parametrize("marker", sorted({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}))
def test_every_kind_of_jpeg_frame(marker: int) -> None:
    assert size_of(jpeg(segment(0xE0), frame(marker, 640, 480))) == (640, 480)


@pytest.mark.parametrize("marker", [0xC4, 0xC8, 0xCC, 0xDB, 0xDD, 0xE1, 0xEF, 0xFE])
def test_other_jpeg_segments_are_stepped_over_whole(marker: int) -> None:
    decoy = segment(marker, jpeg(frame(0xC0, 1, 1)))
    assert size_of(jpeg(decoy, frame(0xC2, 640, 480))) == (640, 480)


@pytest.mark.parametrize(
    "between", [b"\xff", b"\xff" * 99, b"\xff\xd3", b"\xff\x01", b"\xff\0", b"\0\0junk"]
)
def test_what_may_stand_between_jpeg_segments(between: bytes) -> None:
    assert size_of(jpeg(segment(0xE0), between, frame(0xC0, 65535, 1))) == (65535, 1)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (jpeg(frame(0xC0, 0, 480)), "width or height of zero"),
        (jpeg(frame(0xC0, 640, 480, components=0)), "wrong length"),
        (jpeg(segment(0xC0, bytes(9) + b"\x04")), "wrong length"),
        (jpeg(b"\xff\xe0\0\1"), "shorter than its own length"),
        (jpeg(segment(0xE0), segment(0xDA), frame(0xC0, 9, 9)), "no frame header"),
        (jpeg(segment(0xE0), b"\xff\xd9"), "no frame header"),
        (jpeg(segment(0xE0), jpeg(frame(0xC0, 9, 9))), "no frame header"),
        (jpeg(segment(0xE0, b"JFIF\0")), "cut short"),
        (jpeg(b"\xff\xe0\xff\xff"), "cut short"),
        (jpeg(frame(0xF7, 9, 9), segment(0xDA)), "no frame header"),
    ],
)
def test_jpeg_headers_that_are_refused(head: bytes, words: str) -> None:
    assert words in refusal_of(head)


LARGE = MOST_JPEG_BYTES - 4096


def behind(length: int) -> bytes:
    """A JPEG whose frame header comes after that many bytes of colour profile."""
    whole, rest = divmod(length, 0xFFFF + 2)
    profiles = segment(0xE2, bytes(0xFFFD)) * whole
    return jpeg(profiles, segment(0xE2, bytes(max(rest - 4, 0))), frame(0xC0, 640, 480))


@pytest.mark.parametrize("length", [0, 60_000, 65_536, 70_000, 3_000_000, LARGE])
def test_jpeg_frames_behind_metadata(length: int) -> None:
    assert size_of(behind(length)) == (640, 480)


def test_where_looking_for_a_jpeg_frame_ends() -> None:
    assert "more than 32 MiB" in refusal_of(behind(MOST_JPEG_BYTES + 70_000))
    for fill in (b"\xff", b"\0", b"\xff\0"):
        stray = fill * (MOST_JPEG_STRAY // len(fill))
        assert size_of(jpeg(segment(0xE0), stray[:-9000], frame(0xC0, 9, 9))) == (9, 9)
        assert "too much between" in refusal_of(jpeg(segment(0xE0), stray, bytes(9000)))
    many = segment(0xE1) * (MOST_JPEG_SEGMENTS - 1)
    assert size_of(jpeg(many, frame(0xC0, 9, 9))) == (9, 9)
    assert "more than 4,096 segments" in refusal_of(jpeg(many, segment(0xE1), frame(0xC0, 9, 9)))
    assert "more than 4,096 segments" in refusal_of(jpeg(b"\xff\xd0" * 5000, frame(0xC0, 9, 9)))


def test_a_file_is_read_in_small_pieces() -> None:
    """Nothing of the 30 megabytes before the frame header is held, and little of it is read."""
    file, read = behind(30_000_000), []

    def read_at(at: int, length: int) -> bytes:
        read.append(length)
        return file[at : at + length]

    header = read_file_header(read_at)
    assert (header.width, header.height) == (640, 480)
    assert max(read) <= HEADER_BYTES
    assert sum(read) < len(file) / 5


def test_the_largest_webp_of_each_kind() -> None:
    vp8 = b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", 0x4000 | 16383, 0xC000 | 16382)
    assert size_of(webp(b"VP8 ", vp8)) == (16383, 16382), "the upper two bits are a scale"
    assert size_of(vp8l(16384, 16383)) == (16384, 16383)
    assert size_of(webp(b"VP8X", bytes(4) + b"\xff\xff\xff\0\0\0")) == (2**24, 1)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (webp(b"VP8 ", b"\x10\0\0\x9d\x01\x2a\0\0\x09\0"), "width or height of zero"),
        (webp(b"VP8 ", b"\x11\0\0\x9d\x01\x2a\x09\0\x09\0"), "key frame"),
        (webp(b"VP8 ", b"\x10\0\0\x9d\x01\x2b\x09\0\x09\0"), "key frame"),
        (vp8l(9, 9, version=1), "VP8L header"),
        (webp(b"VP8L", bytes(5)), "VP8L header"),
        (webp(b"ALPH", bytes(30)), "VP8, VP8L or VP8X"),
        (webp(b"VP8X", bytes(4)), "cut short"),
    ],
)
def test_webp_headers_that_are_refused(head: bytes, words: str) -> None:
    assert words in refusal_of(head)


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (gif(65535, 1, rest=gif_frame(1, 1)), (65535, 1)),
        (gif(9, 8, rest=gif_frame(700, 500)), (9, 8)),
        (gif(0, 0, rest=gif_frame(7, 5)), (7, 5)),
        (gif(9, 0, rest=gif_frame(7, 5)), (7, 5)),
        (gif(0, 0, 0x80 | 7, bytes(768) + gif_frame(7, 5)), (7, 5)),
        (gif(0, 0, 0x07, gif_frame(7, 5)), (7, 5)),
        (gif(0, 0, rest=b"!\xfe\x03abc\x01d\0!\xf9\4\0\0\0\0\0" + gif_frame(7, 5)), (7, 5)),
    ],
)
def test_gif_sizes(head: bytes, size: tuple[int, int]) -> None:
    assert size_of(head) == size
    assert size_of(head.replace(b"GIF89a", b"GIF87a")) == size


def test_a_gif_frame_beyond_its_screen_counts() -> None:
    """Pillow makes the screen as large as the frame."""
    frame = b"," + struct.pack("<HHHHB", 5, 7, 60_000, 50_000, 0)
    header = read_header(gif(1, 1, rest=frame), complete=True)
    assert (header.width, header.height, header.pixels) == (1, 1, 60_005 * 50_007)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (gif(0, 0), "cut short"),
        (gif(9, 9), "cut short"),
        (gif(9, 9, rest=b";"), "no frame"),
        (gif(0, 5, rest=b";"), "no frame"),
        (gif(0, 0, rest=gif_frame(0, 5)), "width or height of zero"),
        (gif(0, 0, rest=b"!\xfe\xff"), "cut short"),
        (gif(0, 0, 0x87, gif_frame(7, 5)), "cut short"),
    ],
)
def test_gif_headers_that_are_refused(head: bytes, words: str) -> None:
    assert words in refusal_of(head)


def test_too_few_bytes_for_so_many_pixels() -> None:
    """38 bytes of WebP can be a hundred megapixels of one colour. An honest encoder needs more."""
    bomb = vp8l(10_000, 10_000) + bytes(13)
    assert len(bomb) == 38
    header = read_header(bomb, complete=True)
    with pytest.raises(NotAnImage, match=r"38 bytes for 10000 × 10000 pixels.*anew"):
        header.check_density(len(bomb))
    header.check_density(2000)
