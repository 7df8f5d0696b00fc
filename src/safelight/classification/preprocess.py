"""Untrusted bytes become the pixels a model takes, and a thumbnail, from one decode.

Guarantees: only the five accepted formats are tried; sizes are judged before pixels are decoded; a
JPEG is decoded at the smallest scale that serves; no more than one large image is held at a time,
however many threads decode; whatever is wrong with the bytes is `Undecodable`.
Known gaps: decoding runs in this process, so a fault in a C library ends it; colour profiles are
kept in thumbnails but not applied.
"""

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import AvifImagePlugin, ExifTags, Image, UnidentifiedImageError

from safelight.classification.base import Undecodable
from safelight.ingest.avif import Size

FORMATS: Final = ("JPEG", "PNG", "WEBP", "GIF", "AVIF")
THUMBNAIL_SIDE: Final = 512
LARGE_PIXELS: Final = 16_000_000
# A crafted JPEG costs its pixels once per scan; a hundred megapixels in twenty scans take seconds.
MAX_SCANNED_PIXELS: Final = 2_000_000_000

_SHORT_SIDE: Final = 512  # twice what a crop needs, so that resampling hides the rough scaling
_BAND_PIXELS: Final = 1_000_000
_SCAN_MARKER: Final = b"\xff\xda"
_MAX_PROFILE_BYTES: Final = 4096
_UPRIGHT: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

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
    profile: bytes | None

    def square(self, side: int, share: float, resample: Image.Resampling) -> Pixels:
        """The middle of the upright image as RGB: `share` of its short side, scaled to `side`."""
        box = centre(self.size, share)
        return np.asarray(_on_white(self._resized((side, side), box, resample)))

    def thumbnail(self) -> bytes:
        small = self._fitted(THUMBNAIL_SIDE)
        out = io.BytesIO()
        small.save(out, "WEBP", quality=75, method=0, icc_profile=self.profile)
        return out.getvalue()

    def jpeg(self, side: int) -> bytes:
        """Upright and without metadata, at most `side` wide and high."""
        out = io.BytesIO()
        _on_white(self._fitted(side)).save(out, "JPEG", quality=90)
        return out.getvalue()

    def _fitted(self, side: int) -> Image.Image:
        whole = (0, 0, *self.size)
        # Hamming: as quick as bilinear, nearly as sharp as bicubic.
        return self._resized(fit(self.size, side), whole, Image.Resampling.HAMMING)

    def _resized(self, size: Size, box: CropBox, resample: Image.Resampling) -> Image.Image:
        left, top, right, bottom = (edge * self.scale for edge in box)
        width, height = self.image.size
        exact = (left, top, min(right, width), min(bottom, height))
        small = self.image.resize(size, resample, exact)
        turn = _UPRIGHT.get(self.orientation)
        return small if turn is None else small.transpose(turn)


class Decoder:
    """Shared by all threads. Pillow keeps its limits in module variables: one decoder a process."""

    def __init__(self, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        self._one_large = threading.Lock()
        _set_up_pillow(max_pixels)

    @contextmanager
    def decoded(self, data: bytes) -> Iterator[Picture]:
        with _image_at_fault():
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            size, scans = image.size, _scans(image, data)
            self._check(size, scans)
            scale = _shrink(image)
        # A JPEG in several scans is held whole by its decoder, however small it comes out.
        held = size if scans > 1 else image.size
        with self._one_large if held[0] * held[1] > LARGE_PIXELS else nullcontext():
            with _image_at_fault():
                image.load()
                factor = max(1, min(image.size) // _SHORT_SIDE)
                small = _reduced(image, factor)
            yield Picture(small, size, scale / factor, _orientation(image), _profile(image))

    def _check(self, size: Size, scans: int) -> None:
        pixels = size[0] * size[1]
        if pixels > self._max_pixels:
            raise Undecodable("The image has more pixels than SAFELIGHT_MAX_PIXELS allows.")
        if pixels * scans > MAX_SCANNED_PIXELS:
            raise Undecodable(f"The JPEG draws its {pixels} pixels in {scans} scans: too many.")


def centre(size: Size, share: float) -> CropBox:
    width, height = size
    side = max(1, int(share * min(size)))
    left, top = (width - side + 1) // 2, (height - side + 1) // 2
    return left, top, left + side, top + side


def fit(size: Size, side: int) -> Size:
    """The size that fits a square of `side`, never enlarged, never without a pixel."""
    ratio = min(1.0, side / max(size))
    return max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))


def _is_jpeg(image: Image.Image) -> bool:
    return image.format in {"JPEG", "MPO"}  # MPO: a JPEG with further pictures behind the first


def _scans(image: Image.Image, data: bytes) -> int:
    """At least the number of scans: in the drawn data this marker stands for nothing else."""
    return data.count(_SCAN_MARKER) if _is_jpeg(image) else 1


def _shrink(image: Image.Image) -> float:
    """Asks the JPEG decoder to scale down; the answer is exact, unlike the rounded-up new width."""
    if not _is_jpeg(image):
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


def _profile(image: Image.Image) -> bytes | None:
    profile: Any = image.info.get("icc_profile")
    usable = isinstance(profile, bytes) and len(profile) <= _MAX_PROFILE_BYTES
    return profile if usable and image.mode == "RGB" else None


@contextmanager
def _image_at_fault() -> Iterator[None]:
    try:
        yield
    except (Undecodable, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Undecodable("The image has more pixels than SAFELIGHT_MAX_PIXELS allows.") from None
    except UnidentifiedImageError:
        raise Undecodable("The bytes are not a JPEG, PNG, WebP, GIF or AVIF image.") from None
    except Exception as error:
        raise Undecodable(f"The image cannot be decoded: {error}") from error


def _set_up_pillow(max_pixels: int) -> None:
    Image.MAX_IMAGE_PIXELS = max_pixels
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
