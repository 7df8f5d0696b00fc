"""Images as the world sends them: photographs, every mode and format, and hostile ones."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms

PHOTOS = Path(__file__).parents[1] / "photos"
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF")
TRANSPOSED = {  # how a camera that is held wrong stores an upright picture
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def photo(name: str) -> bytes:
    return (PHOTOS / f"{name}.jpg").read_bytes()


def opened(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image


def encoded(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def plain(colour: str, size: tuple[int, int] = (64, 48), kind: str = "PNG") -> bytes:
    return encoded(Image.new("RGB", size, colour), kind)


def turned(image: Image.Image, orientation: int, kind: str = "JPEG") -> bytes:
    """The picture as stored by a camera that notes this orientation."""
    how = TRANSPOSED[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(image if how is None else image.transpose(how), kind, exif=exif, quality=95)


def four_colours(size: tuple[int, int] = (600, 400)) -> Image.Image:
    """Red, green, blue and white quarters, so that any turn shows."""
    image = Image.new("RGB", size, "white")
    half = size[0] // 2, size[1] // 2
    image.paste("red", (0, 0, *half))
    image.paste("lime", (half[0], 0, size[0], half[1]))
    image.paste("blue", (0, half[1], half[0], size[1]))
    return image


def grainy(image: Image.Image) -> Image.Image:
    """With the grain of a real sensor, which an enlarged photograph lacks."""
    grain = np.random.default_rng(1).normal(0, 8, (image.height, image.width, 1))
    return Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8))


def gray16(image: Image.Image) -> bytes:
    values = np.asarray(image.convert("L")).astype(np.uint16) * 257
    return encoded(Image.fromarray(values), "PNG")


def png_chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def png(width: int, height: int, *chunks: bytes, rows: bytes = b"\0") -> bytes:
    """A PNG that claims a size, whatever it holds."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [
        png_chunk(b"IHDR", header),
        *chunks,
        png_chunk(b"IDAT", zlib.compress(rows)),
        png_chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def gif_with_frame(width: int, height: int) -> bytes:
    """A screen of ten by ten pixels whose first frame claims another size."""
    data = bytearray(encoded(Image.new("P", (10, 10)), "GIF"))
    at = data.index(b",", 13)
    data[at + 5 : at + 9] = struct.pack("<HH", width, height)
    return bytes(data)


def many_scans(side: int, scans: int) -> bytes:
    """A progressive JPEG that draws its last refinement again and again."""
    data = encoded(Image.new("L", (side, side)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * scans + data[-2:]


def tiny_webp(width: int, height: int) -> bytes:
    """One colour, lossless: no bit is spent on any pixel."""
    bits = [(width - 1, 14), (height - 1, 14), (0, 1 + 3), (0, 3), *[(1, 4)] * 5]
    word, at = 0, 0
    for value, count in bits:
        word |= value << at
        at += count
    body = b"\x2f" + word.to_bytes(-(-at // 8), "little")
    body += b"\0" * (len(body) % 2)
    chunk = b"VP8L" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def lying_avif(size: tuple[int, int], claimed: tuple[int, int] = (64, 64)) -> bytes:
    """Its container says one size, what lies in it has another."""
    data = bytearray(encoded(Image.new("L", size), "AVIF", speed=10))
    at = data.index(b"ispe") + 8
    data[at : at + 8] = struct.pack(">II", *claimed)
    return bytes(data)


def odd_profile() -> bytes:
    """Of a screen whose red and green lamps are swapped: what is red by it looks green."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = profile.replace(b"rXYZ", b"?XYZ").replace(b"gXYZ", b"rXYZ").replace(b"?XYZ", b"gXYZ")
    return swapped.replace(b"sRGB", b"oRGB").replace("sRGB".encode("utf-16-be"), b"\0o\0R\0G\0B")
