"""What an upload may be is what children can open: the defaults agree."""

import io
from collections.abc import Callable

import pytest
from PIL import Image

from classification.images import tiny_webp
from safelight.sandbox.protocol import Bounds
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import load
from safelight.submissions.services import limits

SETTINGS = load()
BOUNDS = Bounds(SETTINGS.max_pixels, SETTINGS.scan_max_frames, 10**9)


def turned_jpeg() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    out = io.BytesIO()
    Image.new("RGB", (12_000, 8_000), "teal").save(out, "JPEG", exif=exif, quality=50)
    return out.getvalue()


def large_png() -> bytes:
    out = io.BytesIO()
    Image.linear_gradient("L").resize((12_000, 8_000)).convert("RGB").save(
        out, "PNG", compress_level=1
    )
    return out.getvalue()


@pytest.mark.parametrize(
    "make",
    [turned_jpeg, large_png, lambda: tiny_webp(10_000, 10_000)],
    ids=["turned JPEG", "PNG", "28 bytes of WebP"],
)
async def test_the_largest_that_is_let_in_is_scanned(make: Callable[[], bytes]) -> None:
    sandbox = Sandbox(limits(SETTINGS))
    data = make()
    found = await sandbox.inspect(data, BOUNDS)
    assert (found.decoded, found.fault) == (1, None)
    if found.content_type != "image/webp":
        made = await sandbox.render(data, square=256)
        assert {made.width, made.height} == {8_000, 12_000}
        assert made.content_type == "image/jpeg"
    await sandbox.close()
