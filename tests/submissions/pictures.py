"""Pictures as people submit them: real ones, private ones, broken ones and hostile ones."""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from PIL import Image, ImageEnhance

PHOTOS = Path(__file__).parents[1] / "photos"


def photo(name: str = "cat") -> bytes:
    return (PHOTOS / f"{name}.jpg").read_bytes()


def opened(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image


def encoded(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def plain(colour: str = "orange", size: tuple[int, int] = (64, 48), kind: str = "PNG") -> bytes:
    return encoded(Image.new("RGB", size, colour), kind)


def as_kind(kind: str, name: str = "cat", **options: Any) -> bytes:
    return encoded(opened(photo(name)), kind, **options)


def holiday_photo(orientation: int = 6, kind: str = "JPEG") -> bytes:
    """Taken in Reykjavik with a phone that was held sideways."""
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Nokia", "3310"
    exif[0x0112] = orientation
    exif[0x8825] = {1: "N", 2: (64.0, 8.0, 48.0), 3: "W", 4: (21.0, 56.0, 24.0)}
    comment = {"comment": b"my home address"} if kind == "JPEG" else {}
    return encoded(opened(photo()), kind, exif=exif, quality=92, **comment)


def with_archive(data: bytes) -> bytes:
    """A picture to a viewer, an archive to an unpacker."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("payload.exe", b"MZ" + bytes(100))
    return data + out.getvalue()


def truncated(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (
        png_chunk(b"IHDR", header),
        png_chunk(b"IDAT", zlib.compress(rows, 9)),
        png_chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def bomb(side: int = 5000) -> bytes:
    """Seventy kilobytes that unpack to seventy megabytes and more."""
    return png(side, side, bytes((1 + 3 * side) * side))


def flood_of_frames(count: int = 10_000) -> bytes:
    """A GIF of one pixel that moves on and on."""
    base = encoded(Image.new("P", (1, 1)), "GIF")
    at = base.index(b",", 13)
    return base[:at] + base[at:-1] * count + b";"


def animation(frames: int = 3, size: tuple[int, int] = (60, 40)) -> bytes:
    colours = ["red", "lime", "blue", "white", "black"]
    pictures = [Image.new("RGB", size, colours[n % 5]) for n in range(frames)]
    return encoded(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=50)


def near_copy(data: bytes) -> bytes:
    """Smaller, brighter and recompressed: other bytes, the same picture to a person."""
    image = opened(data).convert("RGB")
    image = image.resize((image.width * 2 // 3, image.height * 2 // 3))
    return encoded(ImageEnhance.Brightness(image).enhance(1.08), "JPEG", quality=55)
