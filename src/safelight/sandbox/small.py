"""A small picture for people to look at: WebP with nothing in it but its pixels, in sRGB.

In children only. What is not pixels cannot get in, since it is never handed to the encoder; a
picture that shows what is behind it stays so. The task `thumbnail` makes one of a file: the first
frame, upright, never enlarged.
"""

import io
from contextlib import suppress
from typing import Any, Final, TypeGuard

from PIL import Image, ImageCms

from safelight.sandbox.pictures import check_scans, is_jpeg, opened, upright
from safelight.sandbox.protocol import Answer

_MOST_PROFILE_BYTES: Final = 16 * 1024  # a screen's or camera's; a printer's are megabytes
_SRGB: Final = b"sRGB"
_SRGB_WIDE: Final = "sRGB".encode("utf-16-be")  # newer profiles spell their names so
_NAMED_WITHIN: Final = 1024


def thumbnail(data: bytes, parameters: dict[str, Any]) -> Answer:
    """Without bytes: it cannot be drawn, which is no reason to end the process."""
    side = parameters["side"]
    try:
        image = opened(data)
        check_scans(image, data)
        if is_jpeg(image):
            image.draft(None, (side, side))  # a scale at which neither side is too small
        image.load()
        picture = upright(image)
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        return Answer({}, webp(picture, None, quality=80, method=2))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a decoder raises whatever the bytes lead it into
        return Answer({})


def webp(small: Image.Image, profile: object, *, quality: int, method: int) -> bytes:
    """`profile` is what the file says of its colours, if it says anything."""
    drawn = _in_srgb(small, profile)
    drawn.info = {}
    out = io.BytesIO()
    drawn.save(out, "WEBP", quality=quality, method=method)
    return out.getvalue()


def is_foreign(profile: object) -> TypeGuard[bytes]:
    """Whether it says that the colours are other than sRGB, and is to be believed."""
    if not isinstance(profile, bytes) or len(profile) > _MOST_PROFILE_BYTES:
        return False
    return not _is_srgb(profile)


def _in_srgb(small: Image.Image, profile: object) -> Image.Image:
    if not is_foreign(profile) or small.mode not in {"RGB", "RGBA"}:
        return small
    with suppress(ImageCms.PyCMSError, OSError, ValueError):
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        target = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(small, source, target, outputMode=small.mode)
        return small if converted is None else converted
    return small


def _is_srgb(profile: bytes) -> bool:
    """By its name, which stands near its beginning: most cameras write this one, and converting
    from it would be work for nothing."""
    start = profile[:_NAMED_WITHIN]
    return _SRGB in start or _SRGB_WIDE in start
