"""The task `render`: the picture anew, with nothing in it but its pixels.

JPEG stays JPEG, everything else becomes WebP; the first frame, upright, in sRGB. What is not pixels
(metadata, profiles, comments, data behind the end) cannot get in, since it is never handed to the
encoder. With `square`, the whole picture squeezed into a square of that side comes before it, as
raw RGB: what some models take.
"""

import io
from typing import Any, Final

from PIL import Image

from safelight.sandbox.pictures import CONTENT_TYPES, on_white, opened, upright
from safelight.sandbox.protocol import Answer

_JPEG: Final = {"quality": 90, "optimize": True}
_WEBP: Final = {"quality": 90, "method": 3}


def render(data: bytes, parameters: dict[str, Any]) -> Answer:
    image = opened(data)
    content_type = CONTENT_TYPES[image.format or ""]
    image.load()
    picture = upright(image)
    if side := parameters["max_side"]:
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    squeezed = _squeezed(picture, parameters["square"])
    content_type = "image/jpeg" if content_type == "image/jpeg" else "image/webp"
    facts = {
        "content_type": content_type,
        "width": picture.width,
        "height": picture.height,
        "square": len(squeezed),
    }
    return Answer(facts, squeezed + _encoded(picture, content_type))


def _encoded(picture: Image.Image, content_type: str) -> bytes:
    picture.info = {}  # what stands in here, encoders write by themselves
    out = io.BytesIO()
    if content_type == "image/jpeg":
        on_white(picture).save(out, "JPEG", **_JPEG)
    else:
        picture.save(out, "WEBP", **_WEBP)
    return out.getvalue()


def _squeezed(picture: Image.Image, side: int | None) -> bytes:
    if side is None:
        return b""
    whole = on_white(picture).convert("RGB")
    return whole.resize((side, side), Image.Resampling.BILINEAR).tobytes()
