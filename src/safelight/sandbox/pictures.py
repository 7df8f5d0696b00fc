"""Opening and straightening pictures. In children only: these decoders meet untrusted bytes."""

import io
from contextlib import suppress
from typing import Any, Final

from PIL import AvifImagePlugin, ExifTags, Image, ImageCms, ImageOps

FORMATS: Final = ("JPEG", "PNG", "WEBP", "GIF", "AVIF")
CONTENT_TYPES: Final = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # a JPEG with further pictures behind the first
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
}
_SIXTEEN_BITS: Final = ("I;16", "I;16B", "I;16L", "I")


def set_up() -> None:
    """Sizes are judged by our own rules, and memory by the kernel."""
    Image.MAX_IMAGE_PIXELS = None
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data), formats=FORMATS)


def upright(image: Image.Image) -> Image.Image:
    """The first frame in sRGB, as L, RGB or RGBA, turned as its metadata says."""
    return _plain(_in_srgb(_turned(image)))


def on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _turned(image: Image.Image) -> Image.Image:
    """A new image, if at all: animations go on reading frames into the one that was opened."""
    with suppress(Exception):  # a broken note on orientation is no reason to refuse an image
        if image.getexif().get(ExifTags.Base.Orientation) in range(2, 9):
            return ImageOps.exif_transpose(image)
    return image


def _plain(image: Image.Image) -> Image.Image:
    if image.mode in _SIXTEEN_BITS:
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in {"L", "RGB"} else image.convert("RGB")


def _in_srgb(image: Image.Image) -> Image.Image:
    """The profile goes with the other metadata, so the colours have to be right without it."""
    profile: Any = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or image.mode not in {"RGB", "RGBA", "CMYK"}:
        return image
    mode = "RGB" if image.mode == "CMYK" else image.mode
    with suppress(ImageCms.PyCMSError, OSError, ValueError):
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        target = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, source, target, outputMode=mode)
        return image if converted is None else converted
    return image
