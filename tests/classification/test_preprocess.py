"""What reaches a model, and the thumbnail, whatever the image was stored as."""

import struct
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageFile

from classification.images import (
    FORMATS,
    TRANSPOSED,
    encoded,
    four_colours,
    grainy,
    gray16,
    odd_profile,
    opened,
    photo,
    plain,
    turned,
)
from photos.containers import claiming, grid
from photos.corpus import heic, saved, scene
from safelight.classification.base import Undecodable
from safelight.classification.preprocess import Decoder, centre, fit
from safelight.sandbox import swift

RED, LIME, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


@pytest.fixture
def decoder() -> Decoder:
    return Decoder(100_000_000)


def square(decoder: Decoder, data: bytes) -> NDArray[np.uint8]:
    with decoder.decoded(data) as picture:
        return picture.square(224, 0.875, Image.Resampling.BICUBIC)


def thumbnail(decoder: Decoder, data: bytes) -> Image.Image:
    with decoder.decoded(data) as picture:
        small = opened(picture.thumbnail())
    assert small.format == "WEBP"
    return small


def near(found: Any, wanted: tuple[int, ...], tolerance: int = 12) -> bool:
    return bool(np.abs(np.asarray(found, int)[:3] - wanted).max() <= tolerance)


def corners(image: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    rows, columns = image.shape[:2]
    return [image[rows * y // 8, columns * x // 8] for y, x in ((1, 1), (1, 7), (7, 1), (7, 7))]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", TRANSPOSED)
def test_pixels_and_thumbnail_are_upright(decoder: Decoder, orientation: int, kind: str) -> None:
    data = turned(four_colours(), orientation, kind)
    small = thumbnail(decoder, data)
    assert small.size == (320, 213)
    for image in (square(decoder, data), np.asarray(small.convert("RGB"))):
        found = corners(image)
        assert all(near(*pair, 40) for pair in zip(found, (RED, LIME, BLUE, WHITE), strict=True))


def test_an_avif_is_turned_as_its_own_boxes_say(decoder: Decoder) -> None:
    assert thumbnail(decoder, turned(four_colours(), 6, "AVIF")).size == (320, 213)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_accepted_format_gives_the_same_pixels(decoder: Decoder, kind: str) -> None:
    image = opened(photo("coffee"))
    wanted = square(decoder, encoded(image, "PNG")).astype(int)
    assert np.abs(square(decoder, encoded(image, kind)) - wanted).mean() < 10


@pytest.mark.parametrize("size", [(1031, 1039), (1999, 1333), (1999, 1601)])
def test_a_scaled_decode_shows_what_a_full_one_shows(
    decoder: Decoder, size: tuple[int, int]
) -> None:
    data = encoded(grainy(opened(photo("coffee")).resize(size)), "JPEG", quality=95)
    whole = opened(data)
    box = centre(size, 0.875)
    wanted = np.asarray(whole.resize((224, 224), Image.Resampling.BICUBIC, box), int)
    for found in (data, encoded(whole, "PNG", compress_level=0)):
        # Half a pixel beside, which odd sizes invite, would give more than 1.
        assert np.abs(square(decoder, found) - wanted).mean() < 0.75


def test_a_jpeg_with_further_pictures_behind_it_is_scaled_too(decoder: Decoder) -> None:
    image = opened(photo("coffee")).resize((2400, 1600))
    data = encoded(image, "MPO", save_all=True, append_images=[image.resize((60, 40))])
    with decoder.decoded(data) as picture:
        assert picture.scale == 0.5
        assert picture.size == (2400, 1600)


@pytest.mark.parametrize("size", [(300, 200), (1700, 1601)])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_every_mode_comes_out_as_the_same_colour(
    decoder: Decoder, mode: str, size: tuple[int, int]
) -> None:
    colour = WHITE if mode == "1" else (200, 200, 200)
    image = Image.new("RGB", size, colour).convert(mode)
    kind = "JPEG" if mode in {"CMYK", "YCbCr"} else "PNG"
    found = square(decoder, encoded(image, kind))
    assert found.shape == (224, 224, 3)
    assert near(found.mean((0, 1)), colour, 3)


@pytest.mark.parametrize("size", [(300, 200), (1200, 1100)])
def test_sixteen_bit_gray_keeps_its_shades(decoder: Decoder, size: tuple[int, int]) -> None:
    image = opened(photo("cat")).convert("L").resize(size)
    found = square(decoder, gray16(image)).astype(int)
    assert np.abs(found - square(decoder, encoded(image, "PNG"))).max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "AVIF"])
def test_what_is_see_through_is_white_to_a_model_and_stays_so_in_a_thumbnail(
    decoder: Decoder, kind: str
) -> None:
    data = encoded(Image.new("RGBA", (300, 200), (255, 0, 0, 0)), kind)
    assert near(square(decoder, data).mean((0, 1)), WHITE, 2)
    assert thumbnail(decoder, data).getpixel((5, 5))[3] == 0  # type: ignore[index] # RGBA: a tuple


@pytest.mark.parametrize("size", [(600, 400), (1300, 1100)])
@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_palette_may_be_see_through(decoder: Decoder, kind: str, size: tuple[int, int]) -> None:
    image = four_colours(size).quantize(4)
    clear = image.getpixel((10, 10))
    data = encoded(image, kind, transparency=clear)
    assert near(corners(square(decoder, data))[0], WHITE)
    assert near(corners(square(decoder, data))[1], LIME, 30)


def test_a_palette_may_be_see_through_by_degrees(decoder: Decoder) -> None:
    data = encoded(four_colours().quantize(4), "PNG", transparency=bytes([128] * 4))
    assert near(square(decoder, data)[20, 200], (127, 255, 127), 30)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "AVIF"])
def test_of_an_animation_the_first_frame_counts(decoder: Decoder, kind: str) -> None:
    frames = [Image.new("RGB", (300, 200), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert near(square(decoder, data).mean((0, 1)), RED)


def test_a_broken_note_on_orientation_is_ignored(decoder: Decoder) -> None:
    data = encoded(four_colours(), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01")
    assert near(corners(square(decoder, data))[0], RED, 40)


@pytest.mark.parametrize(
    ("size", "side", "wanted"),
    [
        ((600, 400), 512, (512, 341)),
        ((400, 600), 512, (341, 512)),
        ((100, 50), 512, (100, 50)),
        ((20000, 1), 512, (512, 1)),
        ((1, 1), 512, (1, 1)),
    ],
)
def test_a_thumbnail_fits_and_is_never_enlarged(
    size: tuple[int, int], side: int, wanted: tuple[int, int]
) -> None:
    assert fit(size, side) == wanted


@pytest.mark.parametrize("size", [(1, 1), (20000, 1), (1, 20000), (7, 5), (224, 224), (4000, 3000)])
def test_the_middle_lies_inside_and_has_a_pixel(size: tuple[int, int]) -> None:
    left, top, right, bottom = centre(size, 0.875)
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]
    assert right - left == bottom - top


@pytest.mark.parametrize("size", [(1, 1), (20000, 1), (1, 20000), (3, 2)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF"])
def test_odd_shapes_are_images_too(decoder: Decoder, size: tuple[int, int], kind: str) -> None:
    data = plain("red", size, kind)
    assert near(square(decoder, data).mean((0, 1)), RED)
    assert max(thumbnail(decoder, data).size) <= 320


@pytest.mark.parametrize("kind", FORMATS)
def test_a_thumbnail_holds_nothing_but_pixels(decoder: Decoder, kind: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = "A maker of cameras"
    notes = {} if kind == "GIF" else {"exif": exif, "icc_profile": odd_profile()}
    with decoder.decoded(encoded(opened(photo("coffee")), kind, **notes)) as picture:
        small = picture.thumbnail()
    assert small[12:16] == b"VP8 "  # the plain form has no room for notes
    assert opened(small).info.keys() <= {"loop", "background", "timestamp", "duration"}
    assert not opened(small).getexif()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_colours_look_as_their_profile_says(decoder: Decoder, mode: str) -> None:
    image = Image.new(mode, (300, 200), "red")
    data = encoded(image, "PNG", icc_profile=odd_profile())
    assert near(thumbnail(decoder, data).getpixel((50, 50)), LIME, 30)


@pytest.mark.parametrize("profile", [b"p" * 600, b"sRGB" + b"p" * 600, b"p" * 60_000, b""])
def test_a_profile_that_says_nothing_changes_nothing(decoder: Decoder, profile: bytes) -> None:
    data = encoded(Image.new("RGB", (300, 200), "red"), "JPEG", icc_profile=profile)
    assert near(thumbnail(decoder, data).getpixel((50, 50)), RED)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_mode_has_a_thumbnail_and_a_colour(decoder: Decoder, mode: str) -> None:
    colour = WHITE if mode == "1" else (200, 200, 200)
    image = Image.new("RGB", (1300, 700), colour).convert(mode)
    data = encoded(image, "JPEG" if mode == "CMYK" else "PNG")
    assert near(thumbnail(decoder, data).convert("RGB").getpixel((50, 50)), colour, 4)
    with decoder.decoded(data) as picture:
        assert near(ImageColor.getrgb(picture.color()), colour, 4)


def test_sixteen_bits_and_many_frames_have_a_thumbnail(decoder: Decoder) -> None:
    deep = gray16(opened(photo("cat")).convert("L"))
    assert thumbnail(decoder, deep).size == thumbnail(decoder, photo("cat")).size
    frames = [Image.new("RGB", (300, 200), colour) for colour in ("red", "lime", "blue")]
    moving = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert near(thumbnail(decoder, moving).getpixel((9, 9)), RED)
    assert getattr(thumbnail(decoder, moving), "n_frames", 1) == 1


def with_a_little(background: str, colour: str, share: float) -> Image.Image:
    image = Image.new("RGB", (400, 300), background)
    image.paste(colour, (0, 0, 400, round(300 * share)))
    return image


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        (Image.new("RGB", (1, 1), "red"), RED),
        (with_a_little("white", "red", 0.3), RED),  # what is vivid is what people see
        (with_a_little("white", "red", 0.01), WHITE),
        (with_a_little("blue", "gray", 0.6), BLUE),
        (with_a_little("#202020", "#808080", 0.3), (0x20, 0x20, 0x20)),
        (Image.new("RGBA", (300, 200), (255, 0, 0, 0)), WHITE),
    ],
)
def test_the_dominant_colour(
    decoder: Decoder, image: Image.Image, wanted: tuple[int, int, int]
) -> None:
    with decoder.decoded(encoded(image, "PNG")) as picture:
        assert near(ImageColor.getrgb(picture.color()), wanted, 4)


def test_pillow_keeps_quiet_about_what_we_handle(decoder: Decoder) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        Decoder(100_000_000)
        square(decoder, encoded(four_colours().quantize(4), "PNG", transparency=b"\x80\x80\x80"))
    assert heard == []


@pytest.mark.parametrize("kind", ["avif", "heic"])
def test_a_picture_that_claims_to_be_smaller_is_not_decoded(
    decoder: Decoder, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that a bucket tells of were never looked at as uploads are."""
    picture = scene((512, 512))
    data = heic(picture) if kind == "heic" else saved(picture, "AVIF")
    assert square(decoder, data).shape == (224, 224, 3)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda _: pytest.fail("it is being decoded"))
    with pytest.raises(Undecodable, match=f"The {kind.upper()} file is damaged"):
        square(decoder, claiming(data, 512, 64))


def test_tiles_count_by_what_is_coded_in_them() -> None:
    """The last of them may be cut at the picture's edge, and are decoded whole."""
    whole = grid(b"av01", saved(scene((256, 256)), "AVIF"), 2, 2, 256)
    cut = claiming(whole, 512, 300).replace(
        struct.pack(">HH", 512, 512), struct.pack(">HH", 300, 300)
    )
    with Decoder(512 * 512).decoded(cut) as picture:
        assert picture.size == (300, 300)
    with pytest.raises(Undecodable, match="300 × 300"), Decoder(512 * 512 - 1).decoded(cut):
        pass


def test_what_stands_behind_a_photograph_or_in_its_notes_is_no_scan_of_it(
    decoder: Decoder,
) -> None:
    """As in a motion photo: its video holds any two bytes, and its notes a small picture."""
    scan = b"\xff\xda"
    data = encoded(opened(photo("coffee")).resize((1600, 1200)), "JPEG")
    small = encoded(Image.new("RGB", (8, 8)), "JPEG")
    notes = b"\xff\xe1" + (1_500 * 20 + len(small) + 2).to_bytes(2, "big")
    notes += small + (scan + bytes(18)) * 1_500
    for whole in (data + b"\0\0\0\x18ftypmp42" + scan * 2_000, data[:2] + notes + data[2:]):
        assert square(decoder, whole).shape == (224, 224, 3)


@pytest.mark.parametrize("orientation", [1, *TRANSPOSED])
@pytest.mark.parametrize("size", [(1414, 1414), (1999, 1333), (333, 777), (2400, 301)])
def test_a_plain_photograph_is_drawn_swiftly_and_looks_the_same(
    decoder: Decoder, size: tuple[int, int], orientation: int
) -> None:
    """As Pillow would scale it: not shifted, no other colours, not coarse."""
    data = turned(opened(photo("coffee")).resize(size), orientation, "JPEG")
    with decoder.decoded(data) as picture:
        assert swift.suits(picture.image, fit(picture.size, 320))
    found = thumbnail(decoder, data)
    wanted = opened(photo("coffee")).resize(size).resize(fit(size, 320), Image.Resampling.LANCZOS)
    assert found.size == wanted.size
    assert np.abs(np.asarray(found, int) - np.asarray(wanted, int)).mean() < 6


@pytest.mark.parametrize("size", [(60_000, 100), (100, 60_000), (4001, 1000)])
def test_what_is_large_or_thin_is_not_copied(size: tuple[int, int]) -> None:
    assert not swift.suits(Image.new("RGB", size), fit(size, 320))
