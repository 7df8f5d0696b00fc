"""Untrusted bytes become the pixels a model takes, and a thumbnail, from one decode.

In children only. Guarantees: only accepted formats are tried; sizes are judged before pixels are
decoded, and in a container by what is coded; a JPEG is decoded at the smallest scale that serves,
and no second copy of a large image is made; whatever is wrong with the bytes is `Undecodable`.
Known gap: colour profiles are applied to thumbnails, and not to what a model sees.
"""

import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.Image import Resampling

from safelight.classification.base import Drawing, Undecodable
from safelight.classification.palette import dominant
from safelight.classification.refusal import to_facts
from safelight.headers.probe import NotAnImage, read_header
from safelight.headers.refusals import DAMAGED, too_many_pixels
from safelight.sandbox import swift
from safelight.sandbox.pictures import TooManyScans, check_scans, is_jpeg, opened, set_up
from safelight.sandbox.protocol import Answer, SandboxTasks
from safelight.sandbox.samples import samples
from safelight.sandbox.small import is_foreign, webp

THUMBNAIL_SIDE: Final = 320

_SHORT_SIDE: Final = 512  # twice what a crop needs, so that resampling hides the rough scaling
_BAND_PIXELS: Final = 1_000_000
_SAMPLED: Final = (24, 24)
_CONTAINERS: Final = frozenset({"AVIF", "HEIF"})
_UPRIGHT: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS: Final = frozenset({5, 6, 7, 8})

Size = tuple[int, int]
CropBox = tuple[float, float, float, float]
Pixels = NDArray[np.uint8]
Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Picture:
    """A decoded image: `image` is the original of `size`, shrunk by `scale` and not yet upright."""

    image: Image.Image
    size: Size
    scale: float
    orientation: int
    profile: object

    def square(self, side: int, share: float, resample: Resampling) -> Pixels:
        """The middle of the upright image as RGB: `share` of its short side, scaled to `side`."""
        box = centre(self.size, share)
        return np.asarray(_on_white(self._resized((side, side), box, resample)))

    def thumbnail(self) -> bytes:
        """The quickest method: at this size the others save little, and take twice the time."""
        size = fit(self.size, THUMBNAIL_SIDE)
        if swift.suits(self.image, size) and not is_foreign(self.profile):
            return swift.webp(self._upright(self.image), size[::-1] if self._lies else size)
        return webp(self._fitted(THUMBNAIL_SIDE), self.profile, quality=75, method=0)

    def color(self) -> str:
        """A few hundred pixels of the whole, as they are, tell enough."""
        return dominant(np.asarray(_on_white(self.image.resize(_SAMPLED, Resampling.NEAREST))))

    def drawing(self, *, thumbnail: bool) -> Drawing:
        return Drawing(thumbnail=self.thumbnail() if thumbnail else None, color=self.color())

    def jpeg(self, side: int) -> bytes:
        """Upright and without metadata, at most `side` wide and high."""
        out = io.BytesIO()
        _on_white(self._fitted(side)).save(out, "JPEG", quality=90)
        return out.getvalue()

    def _fitted(self, side: int) -> Image.Image:
        whole = (0, 0, *self.size)
        # Hamming: as quick as bilinear, nearly as sharp as bicubic. Whole factors are quicker yet.
        return self._resized(fit(self.size, side), whole, Resampling.HAMMING, reducing_gap=1.0)

    def _resized(
        self, size: Size, box: CropBox, resample: Resampling, reducing_gap: float | None = None
    ) -> Image.Image:
        left, top, right, bottom = (edge * self.scale for edge in box)
        width, height = self.image.size
        exact = (left, top, min(right, width), min(bottom, height))
        return self._upright(self.image.resize(size, resample, exact, reducing_gap))

    def _upright(self, image: Image.Image) -> Image.Image:
        turn = _UPRIGHT.get(self.orientation)
        return image if turn is None else image.transpose(turn)

    @property
    def _lies(self) -> bool:
        """On its side."""
        return self.orientation in _SIDEWAYS


class Decoder:
    """Pillow keeps its limits in module variables: one decoder a process."""

    def __init__(self, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        _set_up_pillow(max_pixels)

    @contextmanager
    def decoded(self, data: bytes) -> Iterator[Picture]:
        with _image_at_fault(data, self._max_pixels):
            image = opened(data)
            size, profile = image.size, image.info.get("icc_profile")
            self._check(image, data)
            check_scans(image, data)
            scale = _shrink(image)
            image.load()
            factor = max(1, min(image.size) // _SHORT_SIDE)
            small = _reduced(image, factor)
        yield Picture(small, size, scale / factor, _orientation(image), profile)

    def _check(self, image: Image.Image, data: bytes) -> None:
        """What lies in a container may be larger than the container says, and would all be decoded.
        A header that contradicts what is coded raises."""
        width, height = size = image.size
        contained = image.format in _CONTAINERS
        coded = read_header(data, complete=True).pixels if contained else 0
        if max(coded, width * height) > self._max_pixels:
            raise Undecodable(too_many_pixels(self._max_pixels, size, coded))


def prepare(max_pixels: int, side: int) -> SandboxTasks:
    """A kit for whoever has its images judged elsewhere: `shrink` makes them small and plain."""
    decoder = Decoder(max_pixels)

    def shrink(data: bytes, parameters: dict[str, Any]) -> Answer:
        digest = hashlib.sha256(data).hexdigest()
        try:
            with decoder.decoded(data) as picture:
                drawing = picture.drawing(thumbnail=parameters["thumbnail"])
                plain = picture.jpeg(side) if parameters["plain"] else b""
        except Undecodable as error:
            return Answer(to_facts(error, digest))
        small = drawing.thumbnail or b""
        facts = {"thumbnail": len(small), "color": drawing.color, "digest": digest}
        return Answer(facts, small + plain)

    for sample in samples():
        shrink(sample, {"thumbnail": True, "plain": True})
    return {"shrink": shrink}


def centre(size: Size, share: float) -> CropBox:
    width, height = size
    side = max(1, int(share * min(size)))
    left, top = (width - side + 1) // 2, (height - side + 1) // 2
    return left, top, left + side, top + side


def fit(size: Size, side: int) -> Size:
    """The size that fits a square of `side`, never enlarged, never without a pixel."""
    ratio = min(1.0, side / max(size))
    return max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))


def _shrink(image: Image.Image) -> float:
    """Asks the JPEG decoder to scale down; the answer is exact, unlike the rounded-up new width."""
    if not is_jpeg(image):
        return 1.0
    width, height = image.size
    short = min(image.size)
    wanted = (width * _SHORT_SIDE // short, height * _SHORT_SIDE // short)
    drafted = image.draft("RGB", wanted)
    return drafted[1][2] / width if drafted else 1.0


def _reduced(image: Image.Image, factor: int) -> Image.Image:
    """Scaled down by a whole factor, band by band: no second copy of a large image is ever made."""
    if factor == 1:
        return _plain(image)
    width, height = image.size
    small = Image.new(_plain_mode(image), (-(-width // factor), -(-height // factor)))
    rows = factor * max(1, _BAND_PIXELS // (width * factor))
    for top in range(0, height, rows):
        band = image.crop((0, top, width, min(top + rows, height)))
        small.paste(_plain(band).reduce(factor), (0, top // factor))
    return small


def _plain(image: Image.Image) -> Image.Image:
    """In one of the three modes that resampling and the rest here work on."""
    if _is_deep(image):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    mode = _plain_mode(image)
    return image if image.mode == mode else image.convert(mode)


def _plain_mode(image: Image.Image) -> str:
    if _is_deep(image):
        return "L"
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode == "L" else "RGB"


def _is_deep(image: Image.Image) -> bool:
    """Gray in sixteen bits, which Pillow's own conversion would clip at white."""
    return image.mode.startswith("I")


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _orientation(image: Image.Image) -> int:
    """A broken note on orientation is no reason to refuse an image."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # noqa: BLE001 - the parser raises whatever the bytes lead it into
        return 1
    return value if isinstance(value, int) else 1


@contextmanager
def _image_at_fault(data: bytes, max_pixels: int) -> Iterator[None]:
    """Whoever sent it is told in our words."""
    try:
        yield
    except (Undecodable, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Undecodable(too_many_pixels(max_pixels)) from None
    except (NotAnImage, TooManyScans) as error:
        raise Undecodable(str(error)) from None
    except UnidentifiedImageError as error:
        raise Undecodable(_unknown(data), decoder=str(error)) from None
    except Exception as error:
        raise Undecodable(DAMAGED, decoder=repr(error)) from error


def _unknown(data: bytes) -> str:
    """What no decoder takes for an image is of another kind, or its beginning is damaged."""
    try:
        read_header(data, complete=True)
    except NotAnImage as refusal:
        return str(refusal)
    return DAMAGED


def _set_up_pillow(max_pixels: int) -> None:
    set_up()
    Image.MAX_IMAGE_PIXELS = max_pixels
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
