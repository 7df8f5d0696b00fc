"""A hundred photographs as real cameras, phones and editors write them: small pictures, real
structures. Each is one that somebody would upload, and be surprised if it were refused."""

import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import av
import pillow_heif
from PIL import ExifTags, Image, ImageCms

from headers.heif_files import open_ended
from photos import containers as box

SIZE: Final = (96, 64)
MIB: Final = 1024 * 1024
PLACE: Final = {1: "N", 2: (64.0, 8.0, 48.0), 3: "W", 4: (21.0, 56.0, 24.0)}
SRGB: Final = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@dataclass(frozen=True)
class Photo:
    name: str
    data: bytes
    content_type: str

    def __str__(self) -> str:
        return self.name


@cache
def corpus() -> tuple[Photo, ...]:
    return tuple(
        Photo(name, data, f"image/{kind}")
        for kind, maker in _MAKERS
        for name, data in maker()
    )  # fmt: skip


# What is in them


@cache
def scene(size: tuple[int, int] = SIZE) -> Image.Image:
    with Image.open(Path(__file__).with_name("coffee.jpg")) as image:
        return image.convert("RGB").resize(size)


@cache
def clear(size: tuple[int, int] = SIZE) -> Image.Image:
    picture = scene(size).copy()
    picture.putalpha(Image.linear_gradient("L").resize(size))
    return picture


def notes(orientation: int = 1) -> bytes:
    """What a phone writes about itself, the place and the time, with a small picture inside."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Fairphone", "FP5"
    exif[ExifTags.Base.Orientation] = orientation
    exif[ExifTags.Base.DateTime] = "2026:11:16 18:00:00"
    exif[ExifTags.IFD.GPSInfo] = PLACE
    exif[ExifTags.IFD.Exif] = {0x829A: 0.004, 0x927C: b"maker" * 400, 0x9003: "2026:11:16 18:00:00"}
    return exif.tobytes()


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def moving(kind: str, image: Image.Image, **options: Any) -> bytes:
    frames = [image.rotate(turn) for turn in (90, 180)]
    return saved(image, kind, save_all=True, append_images=frames, duration=80, **options)


# The files

Files = Iterator[tuple[str, bytes]]


def jpegs() -> Files:
    for progressive, subsampling, restart in product((False, True), (0, 1, 2), (0, 2)):
        options = {"progressive": progressive, "subsampling": subsampling}
        name = (
            f"jpeg {'progressive' if progressive else 'baseline'} {subsampling} restart {restart}"
        )
        yield name, saved(scene(), "JPEG", restart_marker_blocks=restart, **options)
    for orientation in range(1, 9):
        yield f"jpeg turned {orientation}", saved(scene(), "JPEG", exif=notes(orientation))
    for quality in (1, 30, 60, 100):
        yield f"jpeg of quality {quality}", saved(scene(), "JPEG", quality=quality)
    yield "jpeg gray", saved(scene().convert("L"), "JPEG")
    yield "jpeg optimized", saved(scene(), "JPEG", optimize=True)
    yield (
        "jpeg cmyk with its profile",
        saved(scene().convert("CMYK"), "JPEG", icc_profile=box.large_profile(SRGB)),
    )
    yield "jpeg cmyk", saved(scene().convert("CMYK"), "JPEG")


def jpeg_structures() -> Files:
    plain = saved(scene(), "JPEG")
    exif = box.segment(0xE1, b"Exif\0\0" + notes().removeprefix(b"Exif\0\0"))
    edited = box.xmp_segment(b'xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:CreatorTool="Darkroom"')
    profile = box.profile_segments(box.large_profile(SRGB))
    second = saved(scene((48, 32)), "JPEG")
    motion = b'xmlns:GCamera="http://ns.google.com/photos/1.0/camera/" GCamera:MotionPhoto="1"'
    with_all = box.with_segments(plain, exif, edited, *profile)
    mpf = saved(scene(), "MPO", save_all=True, append_images=[scene((48, 32))], exif=notes())
    yield "jpeg exif, xmp and a profile over 64 KiB", with_all
    yield "jpeg exif, xmp, profile and mpf", box.with_segments(mpf, edited, *profile)
    yield "jpeg mpf", mpf
    for size in (100_000, MIB, 3 * MIB):
        content = box.xmp(b"GDepth:Data='" + b"QUJD" * (size // 4) + b"'")
        yield (
            f"jpeg depth map of {size}",
            box.with_segments(plain, exif, *box.extended_xmp(content)),
        )
    yield (
        "jpeg with room for notes",
        box.with_segments(plain, *[box.segment(0xE1, bytes(60_000))] * 5),
    )
    yield (
        "jpeg with photoshop's notes",
        box.with_segments(plain, box.photoshop(b"\x1c\2\x78\0\3cat")),
    )
    yield "jpeg with comments", box.with_segments(plain, *[box.segment(0xFE, b"hello " * 40)] * 20)
    yield "jpeg with filling before markers", plain[:2] + b"\xff" * 7 + plain[2:]
    yield "jpeg with a second picture", with_all + second
    yield "jpeg motion photo", box.with_segments(plain, box.xmp_segment(motion)) + box.clip()
    yield "jpeg motion photo with a long clip", _long_motion_photo()
    yield "jpeg motion photo of another make", plain + box.samsung_trailer()
    yield "jpeg with padding", plain + bytes(5_000)


def _long_motion_photo() -> bytes:
    """A clip holds what looks like a scan of the picture once in 64 KiB; this one, of a small
    picture, as often as it takes."""
    return saved(scene((1600, 1200)), "JPEG") + box.clip((b"\xff\xda" + b"\x55" * 18) * 1_200)


def pngs() -> Files:
    for colours in (0, 2, 4, 6):
        yield f"png 16 bits, colours {colours}", box.png_of_16_bits(*SIZE, colours)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        yield f"png {mode}", saved(clear().convert(mode), "PNG")
    yield "png palette with a clear colour", saved(scene().quantize(16), "PNG", transparency=3)
    yield "png palette with half clear colours", saved(clear().quantize(64), "PNG")
    yield "png with a clear gray", saved(scene().convert("L"), "PNG", transparency=128)
    yield "png with a clear colour", saved(scene(), "PNG", transparency=(1, 2, 3))
    yield "png with notes", saved(scene(), "PNG", exif=notes(6), icc_profile=SRGB, dpi=(300, 300))
    yield "png moving", moving("PNG", clear())
    plain = saved(scene(), "PNG")
    for kind in (b"zTXt", b"iCCP"):
        large = box.png_chunk(kind, b"a\0\0" + zlib.compress(b"0123" * 3 * MIB))
        yield f"png with a {kind.decode()} of 12 MiB", plain[:33] + large + plain[33:]


def webps() -> Files:
    rich = {"exif": notes(), "icc_profile": box.large_profile(SRGB), "xmp": box.xmp(b"a='b'")}
    yield "webp", saved(scene(), "WEBP")
    yield "webp lossless", saved(scene(), "WEBP", lossless=True)
    yield "webp with notes and profile", saved(scene(), "WEBP", **rich)
    yield "webp clear with a profile", saved(clear(), "WEBP", **rich)
    yield "webp clear lossless", saved(clear(), "WEBP", lossless=True)
    yield "webp moving", moving("WEBP", scene())
    yield "webp moving and clear", moving("WEBP", clear(), lossless=True, **rich)
    yield "webp turned", saved(scene(), "WEBP", exif=notes(6))


def gifs() -> Files:
    yield "gif", saved(scene(), "GIF")
    yield "gif moving", moving("GIF", scene(), loop=0)
    yield "gif moving and clear", moving("GIF", clear(), disposal=2)
    yield "gif with a comment", saved(scene(), "GIF", comment=b"drawn by hand")


def avifs() -> Files:
    yield "avif", saved(scene(), "AVIF")
    yield "avif 4:4:4", saved(scene(), "AVIF", subsampling="4:4:4")
    yield "avif gray", saved(scene().convert("L"), "AVIF")
    yield "avif clear", saved(clear(), "AVIF")
    yield "avif moving", moving("AVIF", scene())
    yield "avif with notes and profile", saved(scene(), "AVIF", exif=notes(), icc_profile=SRGB)
    for orientation in (3, 5, 6):
        yield f"avif turned {orientation}", saved(scene(), "AVIF", exif=notes(orientation))
    yield "avif with an open end", open_ended(saved(scene(), "AVIF"))
    yield "avif with padding", saved(scene(), "AVIF") + bytes(16)
    yield "avif of 10 bits", _deep_avif()
    yield "avif of tiles", box.grid(b"av01", saved(scene((64, 64)), "AVIF"), 2, 3, 64)


def heics() -> Files:
    yield "heic", heic(scene())
    for orientation in range(1, 9):
        yield f"heic turned {orientation}", heic(scene(), exif=notes(orientation))
    yield "heic clear", heic(clear())
    yield "heic with an open end", open_ended(heic(scene()))
    yield "heic with padding", heic(scene()) + bytes(16)
    yield "heic with a profile", heic(scene(), icc_profile=box.large_profile(SRGB))
    yield "heic of tiles", box.grid(b"hvc1", heic(scene((64, 64))), 2, 3, 64)
    yield "heic with several pictures", _album()
    yield "heic motion photo", heic(scene()) + box.box(b"mpvd", box.clip())


def shapes(kind: str) -> Callable[[], Files]:
    def files() -> Files:
        for width, height in ((1, 1), (2000, 2), (3, 1500)):
            picture = scene((width, height))
            data = heic(picture) if kind == "HEIF" else saved(picture, kind)
            yield f"{'heic' if kind == 'HEIF' else kind.lower()} {width} × {height}", data

    return files


def heic(image: Image.Image, **options: Any) -> bytes:
    """With x265, through a reader of its own: ours has no encoder."""
    out = io.BytesIO()
    pillow_heif.from_pillow(image).save(out, quality=60, **options)
    return out.getvalue()


def _album() -> bytes:
    """The second one is the one to show."""
    album: Any = pillow_heif.HeifFile()  # type: ignore[no-untyped-call]  # no stubs
    for turn in (0, 90, 180):
        album.add_from_pillow(scene().rotate(turn, expand=True))
    out = io.BytesIO()
    album.save(out, quality=60, primary_index=1)
    return out.getvalue()


@contextmanager
def _in_line() -> Iterator[None]:
    """As root, SVT-AV1 gives the thread that calls it real-time priority and leaves it there: all
    that a test process starts later would push everybody else off the machine."""
    before, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, priority)


def _deep_avif() -> bytes:
    out = io.BytesIO()
    with _in_line(), av.open(out, "w", format="avif") as file:
        stream: Any = file.add_stream("libsvtav1", rate=1)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p10le"
        frame: Any = av.VideoFrame.from_image(scene())  # type: ignore[no-untyped-call]  # no stubs
        for packet in (*stream.encode(frame.reformat(format="yuv420p10le")), *stream.encode()):
            file.mux(packet)
    return out.getvalue()


_MAKERS: Final[tuple[tuple[str, Callable[[], Files]], ...]] = (
    ("jpeg", jpegs), ("jpeg", jpeg_structures), ("png", pngs), ("webp", webps), ("gif", gifs),
    ("avif", avifs), ("heic", heics), ("jpeg", shapes("JPEG")), ("png", shapes("PNG")),
    ("webp", shapes("WEBP")), ("gif", shapes("GIF")), ("avif", shapes("AVIF")),
    ("heic", shapes("HEIF")),
)  # fmt: skip
