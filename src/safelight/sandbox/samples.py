"""One small picture of each kind. Decoders and encoders load parts of themselves on first use, and
a locked child could not; so it opens these before."""

import io
from collections.abc import Iterator

from PIL import Image

_ORIENTATION = 0x0112


def samples() -> Iterator[bytes]:
    exif = Image.Exif()
    exif[_ORIENTATION] = 6
    picture = Image.linear_gradient("L").resize((48, 32)).convert("RGB")
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "AVIF"):
        out = io.BytesIO()
        options = {} if kind == "GIF" else {"exif": exif.tobytes()}
        picture.save(out, kind, **options)
        yield out.getvalue()
    out = io.BytesIO()
    Image.new("RGBA", (48, 32)).save(out, "PNG")  # see-through: it is drawn in another way
    yield out.getvalue()
