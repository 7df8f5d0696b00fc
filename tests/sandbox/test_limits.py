"""What an upload may be is what children can open: the defaults agree."""

import io
import struct
import zlib
from collections.abc import Callable

import pytest
from PIL import Image

from classification.images import png_chunk, tiny_webp
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
    """From black to white. A hundred rows are packed once and stand there eighty times, since packing
    them all takes longer than all the rest."""
    row = b"\0" + b"".join(bytes([256 * x // 12_000]) * 3 for x in range(12_000))
    packer = zlib.compressobj(1)
    start = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(row * 100) + packer.flush(zlib.Z_FULL_FLUSH)
    check = 1
    for _ in range(80):
        check = zlib.adler32(row * 100, check)
    end = zlib.compressobj(1, wbits=-15).flush() + struct.pack(">I", check)
    header = struct.pack(">IIBBBBB", 12_000, 8_000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", start + packed * 80 + end), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


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
