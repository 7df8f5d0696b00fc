"""Opening and straightening pictures. In children only: these decoders meet untrusted bytes."""

import io
import warnings
from contextlib import suppress
from typing import Any, Final

from pi_heif import register_heif_opener
from PIL import AvifImagePlugin, ExifTags, Image, ImageCms, ImageOps, PngImagePlugin

from safelight.sandbox.data_end import jpeg_scans

# In this order: a file that only says that it holds pictures is tried as AVIF, then as HEIC.
FORMATS: Final = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "HEIF")
CONTENT_TYPES: Final = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # a JPEG with further pictures behind the first
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
    "HEIF": "image/heic",
}
# Of these only the picture that the file calls its first is looked at, however many it holds.
ONE_PICTURE: Final = frozenset({"MPO", "HEIF"})
WHITE, BLACK = 255, 0
_SIXTEEN_BITS: Final = ("I;16", "I;16B", "I;16L", "I")
_SCAN_MARKER: Final = b"\xff\xda"
# A JPEG can be drawn over again and again, each time for a few bytes; a hundred megapixels in
# twenty scans take seconds.
MAX_SCANNED_PIXELS: Final = 2_000_000_000
_NOTES: Final = frozenset({b"iCCP", b"iTXt", b"tEXt", b"zTXt"})
_MOST_NOTE: Final = 8 * 1024 * 1024  # unpacked; a printer's profile comes to a few megabytes

# The decoder turns and mirrors as the container says, and takes the note on it out of the Exif.
register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)


class TooManyScans(Exception):
    def __init__(self, pixels: int, scans: int) -> None:
        super().__init__(
            f"This JPEG draws its {pixels} pixels {scans} times over, which takes too long. "
            "Save it anew as an ordinary JPEG and send that."
        )


class PngChunks(PngImagePlugin.PngStream):
    """A note that is too large, or packed in an unknown way, is left out. It is no part of the
    picture, and Pillow would refuse the whole of it."""

    def call(self, cid: bytes, pos: int, length: int) -> bytes:
        if cid not in _NOTES:
            return super().call(cid, pos, length)
        if self.text_memory <= PngImagePlugin.MAX_TEXT_MEMORY:
            with suppress(ValueError, SyntaxError):
                return super().call(cid, pos, length)
        assert self.fp is not None  # noqa: S101 - it is closed behind the last chunk
        self.fp.seek(pos)
        return self.fp.read(length)


def set_up() -> None:
    """Sizes are judged by our own rules, and memory by the kernel. What decoders have to say about
    a file's notes is for nobody's log."""
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = None
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    PngImagePlugin.MAX_TEXT_CHUNK = _MOST_NOTE
    PngImagePlugin.PngStream = PngChunks  # type: ignore[misc]  # by which Pillow reads every PNG


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data), formats=FORMATS)


def check_scans(image: Image.Image, data: bytes) -> None:
    """To be asked before an image is decoded."""
    if not is_jpeg(image):
        return
    pixels = image.width * image.height
    scans = _scans(data, pixels)
    if pixels * scans > MAX_SCANNED_PIXELS:
        raise TooManyScans(pixels, scans)


def is_jpeg(image: Image.Image) -> bool:
    return image.format in {"JPEG", "MPO"}


def _scans(jpeg: bytes, pixels: int) -> int:
    """Exact where it matters. The quick count is never too low; but the video behind a motion photo
    holds the marker by chance, once in 64 KiB, so what is too many by it is looked at closely."""
    most = jpeg.count(_SCAN_MARKER)
    return most if pixels * most <= MAX_SCANNED_PIXELS else jpeg_scans(jpeg) or most


def upright(image: Image.Image) -> Image.Image:
    """The first frame in sRGB, turned as its metadata says: L, RGB, or RGBA where what is behind it
    shows through."""
    return _plain(_in_srgb(_turned(image)))


def flat(picture: Image.Image, level: int) -> Image.Image:
    """In front of a wall of that brightness. Copies no more than it has to: these can be large."""
    if picture.mode != "RGBA":
        return picture
    wall = Image.new("RGB", picture.size, (level, level, level))
    wall.paste(picture, mask=picture.getchannel("A"))
    return wall


def _turned(image: Image.Image) -> Image.Image:
    """In place, since two of a large one are many; an animation goes on reading frames into the one
    that was opened, and is copied."""
    with suppress(Exception):  # a broken note on orientation is no reason to refuse an image
        if image.getexif().get(ExifTags.Base.Orientation) in range(2, 9):
            if getattr(image, "is_animated", False):
                return ImageOps.exif_transpose(image)
            ImageOps.exif_transpose(image, in_place=True)
    return image


def _plain(image: Image.Image) -> Image.Image:
    if image.mode in _SIXTEEN_BITS:
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        clear = image if image.mode == "RGBA" else image.convert("RGBA")
        return clear if _shows_through(clear) else clear.convert("RGB")
    return image if image.mode in {"L", "RGB"} else image.convert("RGB")


def _shows_through(image: Image.Image) -> bool:
    return image.getchannel("A").getextrema() != (WHITE, WHITE)


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
