"""What a child finds in a file, and what it makes of it. The functions themselves, in this process."""

import io
import zlib
from itertools import combinations
from typing import Any

import pytest
from PIL import Image, ImageCms

from headers.heif_files import HEIC, Part, heif, hevc, ispe, still
from photos.containers import png_chunk
from safelight.sandbox.data_end import end_of
from safelight.sandbox.inspecting import inspect
from safelight.sandbox.pictures import set_up
from safelight.sandbox.protocol import FaultKind, Inspection, Rendition
from safelight.sandbox.rendering import render
from safelight.submissions.policies.policy import NEAR, SAME, Closeness, Fingerprint, Looks
from submissions.pictures import (
    PHOTOS,
    animation,
    as_kind,
    encoded,
    flood_of_frames,
    holiday_photo,
    near_copy,
    opened,
    photo,
    plain,
    png,
    truncated,
)

BOUNDS = {"max_pixels": 100_000_000, "max_frames": 1000, "max_total_pixels": 1_000_000_000}
KINDS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF")


@pytest.fixture(autouse=True)
def _pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)


def seen(data: bytes, **bounds: int) -> Inspection:
    return Inspection.load(inspect(data, {**BOUNDS, **bounds}).facts, len(data))


def rendered(data: bytes, **parameters: Any) -> Rendition:
    answer = render(data, {"max_side": None, "square": None, **parameters})
    return Rendition.load(answer.facts, answer.data, **parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_file(kind: str) -> None:
    data = as_kind(kind)
    found = seen(data)
    assert found.content_type == f"image/{kind.lower()}"
    assert (found.width, found.height) == opened(photo()).size
    assert (found.frames, found.decoded, found.fault) == (1, 1, None)
    assert found.end == found.size == len(data)
    assert found.dhash is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tail", [b"x", b"\0" * 100, b"PK\x03\x04", b"\xff\xd9 more \xff\xd9"])
def test_where_an_image_ends(kind: str, tail: bytes) -> None:
    data = as_kind(kind)
    assert seen(data + tail).end == len(data)


@pytest.mark.parametrize("options", [{"progressive": True}, {"restart_marker_blocks": 1}])
def test_where_unusual_jpegs_end(options: dict[str, Any]) -> None:
    data = as_kind("JPEG", **options)
    assert end_of(data + b"tail", "image/jpeg") == len(data)


def test_a_thumbnail_inside_is_not_the_end() -> None:
    small = encoded(Image.new("RGB", (8, 8)), "JPEG")
    exif = b"\xff\xe1" + (len(small) + 8).to_bytes(2, "big") + b"Exif\0\0" + small
    data = photo()
    whole = data[:2] + exif + data[2:]
    assert end_of(whole + b"tail", "image/jpeg") == len(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_short(kind: str) -> None:
    found = seen(truncated(as_kind(kind)))
    assert found.fault
    assert found.fault.kind is FaultKind.BROKEN
    assert found.decoded == 0


def test_a_damaged_checksum() -> None:
    data = bytearray(as_kind("PNG"))
    data[len(data) // 2] ^= 1
    found = seen(bytes(data))
    assert found.fault
    assert found.fault.kind is FaultKind.BROKEN


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP"])
def test_a_png_with_large_notes_is_sound(kind: bytes) -> None:
    set_up()
    note = png_chunk(kind, b"a\0\0" + zlib.compress(b"0" * 20_000_000))
    data = as_kind("PNG")
    found = seen(data[:33] + note + data[33:])
    assert (found.fault, found.decoded) == (None, 1)


def test_what_is_only_not_supported_is_not_broken() -> None:
    shown = Part(b"iden", b"", (ispe(64, 64),), made_of=(2,))
    found = seen(heif(shown, still(hevc(64, 64), (64, 64)), brands=HEIC))
    assert found.fault
    assert found.fault.kind is FaultKind.UNSUPPORTED


def test_frames_are_counted_and_decoded() -> None:
    found = seen(animation(5))
    assert (found.frames, found.decoded) == (5, 5)
    many = seen(flood_of_frames(3000))
    assert (many.frames, many.decoded, many.fault) == (3000, 1, None)
    heavy = seen(animation(5), max_total_pixels=60 * 40 * 4)
    assert (heavy.frames, heavy.decoded) == (5, 1)


def test_too_many_pixels_are_not_decoded() -> None:
    found = seen(png(60_000, 60_000, b"\0"))
    assert (found.pixels, found.decoded, found.fault) == (3_600_000_000, 0, None)
    assert found.unpacked_bytes == 3 * 3_600_000_000


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_traces(kind: str) -> None:
    traces = seen(holiday_photo(kind=kind)).traces
    assert (traces.exif, traces.gps, traces.camera) == (True, True, "Nokia 3310")
    assert seen(as_kind(kind)).traces.gps is False


def test_notes_hold_what_they_like() -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "No\0kia\x1b[31m\n", "\ud83d33\0\0 "
    camera = seen(encoded(opened(photo()), exif=exif.tobytes())).traces.camera
    assert camera
    assert camera.isprintable()


def test_a_place_in_xmp_counts_too() -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><exif:GPSLatitude>64</exif:GPSLatitude></x:xmpmeta>'
    traces = seen(encoded(opened(photo()), "JPEG", xmp=xmp)).traces
    assert (traces.xmp, traces.gps, traces.exif) == (True, True, False)


# Prints


def look(data: bytes) -> Fingerprint:
    found = Looks.of(seen(data)).light
    assert found
    return found


def distance(one: int, other: int) -> int:
    return ((one ^ other) & ((1 << 64) - 1)).bit_count()


def within(one: Fingerprint, other: Fingerprint, how: Closeness) -> bool:
    return (
        distance(one.dhash, other.dhash) <= how.dhash
        and distance(one.phash, other.phash) <= how.phash
    )


@pytest.mark.parametrize("name", ["cat", "coffee", "daisy"])
def test_copies_look_alike(name: str) -> None:
    original = look(photo(name))
    for kind in KINDS:
        assert within(original, look(as_kind(kind, name)), SAME)
    assert within(original, look(near_copy(photo(name))), NEAR)
    assert within(original, look(encoded(opened(photo(name)).convert("L"))), NEAR)
    small = opened(photo(name))
    small.thumbnail((128, 128))
    assert within(original, look(encoded(small, "JPEG", quality=30)), NEAR)


def test_other_pictures_do_not() -> None:
    looks = [look(path.read_bytes()) for path in sorted(PHOTOS.glob("*.jpg"))]
    assert len(looks) >= 3
    for one, other in combinations(looks, 2):
        assert distance(one.dhash, other.dhash) > 16
        assert distance(one.phash, other.phash) > 16


def test_a_picture_without_contrast_has_no_look() -> None:
    for data in (plain("red"), plain("white"), encoded(Image.new("RGBA", (9, 9)), "PNG")):
        assert Looks.of(seen(data)).light is None


def test_prints_survive_being_written() -> None:
    for values in ((0, 0), (-1, 1), (2**63 - 1, -(2**63)), (12345, -98765)):
        assert Fingerprint.parse(str(Fingerprint(*values))) == Fingerprint(*values)


# Renditions


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_picture_stands_upright(orientation: int) -> None:
    tall = Image.new("RGB", (40, 80), "blue")
    tall.paste("red", (0, 0, 40, 40))
    stored = {
        1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(tall.transpose(stored) if stored is not None else tall, exif=exif)
    shown = opened(rendered(data).data)
    assert shown.size == (40, 80)
    top, bottom = shown.getpixel((20, 10)), shown.getpixel((20, 70))
    assert isinstance(top, tuple)
    assert isinstance(bottom, tuple)
    assert (top[0] > 200, bottom[2] > 200) == (True, True)
    assert "exif" not in shown.info


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "I;16", "CMYK", "YCbCr"]
)
def test_every_mode_can_be_published(mode: str) -> None:
    image = opened(photo())
    kind = "JPEG" if mode in {"CMYK", "YCbCr"} else "PNG"
    if mode == "PA":
        data = encoded(image.convert("RGBA").quantize(16), "PNG")
    elif mode == "I;16":
        data = encoded(image.convert("L").convert("I;16"), "PNG")
    else:
        data = encoded(image.convert(mode), kind)
    made = rendered(data, square=16)
    assert opened(made.data).size == image.size
    assert len(made.square) == 16 * 16 * 3
    assert made.content_type == ("image/jpeg" if kind == "JPEG" else "image/webp")


def test_sixteen_bits_keep_their_brightness() -> None:
    gray = Image.new("I;16", (8, 8), 128 * 256)
    assert abs(opened(rendered(encoded(gray, "PNG")).data).convert("L").getpixel((3, 3)) - 128) < 4  # type: ignore[operator]  # one band


def test_a_profile_does_not_get_through() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = encoded(Image.new("RGB", (8, 8), (200, 40, 40)), "PNG", icc_profile=profile)
    shown = opened(rendered(data).data)
    assert "icc_profile" not in shown.info
    red = shown.convert("RGB").getpixel((3, 3))
    assert isinstance(red, tuple)
    assert abs(red[0] - 200) < 8
    broken = encoded(Image.new("RGB", (8, 8), "red"), "PNG", icc_profile=b"not a profile")
    assert opened(rendered(broken).data).size == (8, 8)


def test_a_rendition_can_be_smaller() -> None:
    made = rendered(photo(), max_side=100)
    assert max(made.width, made.height) == 100
    assert opened(made.data).size == (made.width, made.height)


def test_an_animated_picture_with_an_orientation() -> None:
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("red", "blue", "lime")]
    exif = Image.Exif()
    exif[0x0112] = 6
    out = io.BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], exif=exif.tobytes())
    found = seen(out.getvalue())
    assert (found.frames, found.decoded, found.fault) == (3, 3, None)
    assert opened(rendered(out.getvalue()).data).size == (40, 60)
