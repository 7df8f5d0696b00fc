"""The task `render`: the picture anew, with nothing in it but its pixels.

JPEG stays JPEG, everything else becomes WebP, or JPEG too where it is so large that WebP would take
too long; the first frame, upright, in sRGB, on white, so that it looks the same wherever it is
shown. What is not pixels (metadata, profiles, comments, data behind the end) cannot get in, since
it is never handed to the encoder. With `square`, each view has the whole picture squeezed into a
square of that side before it, as raw RGB: what some models take.

A picture that the page shows through comes in two views, the second on black and no larger than
models need: what is drawn in transparency alone is seen on one of them.
"""

import io
from typing import Any, Final

from PIL import Image

from safelight.sandbox.pictures import (
    BLACK,
    CONTENT_TYPES,
    WHITE,
    check_scans,
    flat,
    opened,
    upright,
)
from safelight.sandbox.protocol import Answer

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "image/jpeg": {"format": "JPEG", "quality": 90, "optimize": True},
    "image/webp": {"format": "WEBP", "quality": 90, "method": 3},
}
_DARK_SIDE: Final = 1024
_WEBP_PIXELS: Final = 16_000_000


def render(data: bytes, parameters: dict[str, Any]) -> Answer:
    image = opened(data)
    content_type = CONTENT_TYPES[image.format or ""]
    check_scans(image, data)
    image.load()
    picture = upright(image)
    if side := parameters["max_side"]:
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    large = picture.width * picture.height > _WEBP_PIXELS
    kept = "image/jpeg" if content_type == "image/jpeg" or large else "image/webp"
    views = [_view(flat(picture, WHITE), kept, parameters["square"])]
    if picture.mode == "RGBA":
        picture.thumbnail((_DARK_SIDE, _DARK_SIDE))
        views.append(_view(flat(picture, BLACK), "image/jpeg", parameters["square"]))
    return Answer({"views": [facts for facts, _ in views]}, b"".join(data for _, data in views))


def _view(
    picture: Image.Image, content_type: str, side: int | None
) -> tuple[dict[str, Any], bytes]:
    squeezed, encoded = _squeezed(picture, side), _encoded(picture, content_type)
    facts = {
        "content_type": content_type,
        "width": picture.width,
        "height": picture.height,
        "square": len(squeezed),
        "size": len(encoded),
    }
    return facts, squeezed + encoded


def _encoded(picture: Image.Image, content_type: str) -> bytes:
    picture.info = {}  # what stands in here, encoders write by themselves
    out = io.BytesIO()
    picture.save(out, **_OPTIONS[content_type])
    return out.getvalue()


def _squeezed(picture: Image.Image, side: int | None) -> bytes:
    if side is None:
        return b""
    small = picture.resize((side, side), Image.Resampling.BILINEAR)
    return small.convert("RGB").tobytes()
