"""HEIC, as phones write it: the picture that the file calls its first, turned once."""

import io
from typing import Any

import pillow_heif
import pytest
from PIL import ExifTags, Image

from photos import containers
from photos.corpus import PLACE, heic, notes, scene
from safelight.sandbox.data_end import end_of
from safelight.sandbox.inspecting import inspect
from safelight.sandbox.pictures import opened
from safelight.sandbox.protocol import Inspection, Rendition
from safelight.sandbox.rendering import render

BOUNDS = {"max_pixels": 10**8, "max_frames": 1000, "max_total_pixels": 10**9}


def seen(data: bytes, **bounds: int) -> Inspection:
    return Inspection.load(inspect(data, {**BOUNDS, **bounds}).facts, len(data))


def rendered(data: bytes) -> Rendition:
    answer = render(data, {"max_side": None, "square": None})
    return Rendition.load(answer.facts, answer.data)


def shown(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(rendered(data).data)) as image:
        return image.convert("RGB")


def corners(image: Image.Image) -> tuple[str, ...]:
    """Red, lime, blue or white, from the top left on, row by row."""
    names = {(1, 0, 0): "red", (0, 1, 0): "lime", (0, 0, 1): "blue", (1, 1, 1): "white"}
    wide, high = image.width - 9, image.height - 9
    pixels: list[Any] = [image.getpixel(at) for at in ((8, 8), (wide, 8), (8, high), (wide, high))]
    return tuple(names[tuple(int(band > 128) for band in pixel)] for pixel in pixels)  # type: ignore[index]  # three


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_turned_once(orientation: int) -> None:
    """Phones write the turn twice, for readers of the container and for readers of the Exif."""
    picture = Image.new("RGB", (96, 64))
    for at, colour in (((0, 0), "red"), ((48, 0), "lime"), ((0, 32), "blue"), ((48, 32), "white")):
        picture.paste(colour, (*at, at[0] + 48, at[1] + 32))
    data = heic(picture, exif=notes(orientation))
    in_box = (b"irot" in data) or (b"imir" in data)
    written: Any = pillow_heif.open_heif(data).info["exif"]
    exif = Image.Exif()
    exif.load(written)
    assert (in_box, exif[ExifTags.Base.Orientation]) == (orientation > 1, orientation)
    way = {
        1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90,
    }[orientation]  # fmt: skip
    expected = picture if way is None else picture.transpose(way)
    assert corners(shown(data)) == corners(expected)
    assert (seen(data).width, seen(data).height) == expected.size


def test_what_it_tells_about_its_owner() -> None:
    traces = seen(heic(scene(), exif=notes(6))).traces
    assert (traces.exif, traces.gps, traces.camera) == (True, bool(PLACE), "Fairphone FP5")
    assert not seen(heic(scene())).traces.gps
    made = rendered(heic(scene(), exif=notes(6)))
    assert (made.content_type, b"Fairphone" in made.data) == ("image/webp", False)


def test_of_several_pictures_the_first_by_name_is_shown() -> None:
    album: Any = pillow_heif.HeifFile()  # type: ignore[no-untyped-call]  # no stubs
    for colour in ("lime", "red", "blue"):
        album.add_from_pillow(Image.new("RGB", (64, 64), colour))
    out = io.BytesIO()
    album.save(out, primary_index=1)
    assert set(corners(shown(out.getvalue()))) == {"red"}
    assert (seen(out.getvalue()).frames, seen(out.getvalue()).decoded) == (1, 1)


def test_tiles_are_put_together() -> None:
    data = containers.grid(b"hvc1", heic(Image.new("RGB", (64, 64), "red")), 2, 3, 64)
    assert (shown(data).size, set(corners(shown(data)))) == ((192, 128), {"red"})


def test_too_many_pixels_are_not_decoded() -> None:
    found = seen(heic(scene()), max_pixels=100)
    assert (found.content_type, found.decoded, found.fault) == ("image/heic", 0, None)


def test_where_it_ends() -> None:
    data = heic(scene())
    assert end_of(data + b"and more", "image/heic") == len(data)
    assert seen(data[: len(data) // 2]).fault


def test_only_what_is_asked_for_is_opened() -> None:
    """No thumbnails, depth maps or other pictures beside the one that is shown."""
    assert opened(heic(scene())).info.get("thumbnails", []) == []
    assert opened(heic(scene())).info.get("depth_images", []) == []
