"""AVIF and HEIC files put together box by box, from pictures that real encoders have coded."""

import io
import struct
from dataclasses import dataclass
from functools import cache

import av
import numpy as np
from PIL import Image

Size = tuple[int, int]


def box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind + body


def long_box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4sQ", 1, kind, len(body) + 16) + body


def full_box(kind: bytes, *parts: bytes, version: int = 0, flags: int = 0) -> bytes:
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def ftyp(*brands: bytes) -> bytes:
    return box(b"ftyp", brands[0], bytes(4), *brands[1:])


def ispe(width: int, height: int) -> bytes:
    return full_box(b"ispe", struct.pack(">II", width, height))


def tkhd(width: int, height: int, version: int = 0) -> bytes:
    before = bytes((32 if version else 20) + 16 + 36)
    return full_box(b"tkhd", before, struct.pack(">II", width << 16, height << 16), version=version)


@dataclass(frozen=True)
class Coded:
    """A picture as its codec wrote it; `configuration` is the property that goes with it."""

    kind: bytes
    data: bytes
    configuration: bytes


@dataclass(frozen=True)
class Part:
    kind: bytes
    data: bytes
    properties: tuple[bytes, ...] = ()
    made_of: tuple[int, ...] = ()
    same_as: int | None = None  # the number of an item whose bytes are this one's too


def still(coded: Coded, size: Size, *more: bytes) -> Part:
    return Part(coded.kind, coded.data, (ispe(*size), coded.configuration, *more))


def grid(rows: int, columns: int, size: Size, tiles: tuple[int, ...], claimed: Size) -> Part:
    layout = struct.pack(">BBBBII", 0, 1, rows - 1, columns - 1, *size)
    return Part(b"grid", layout, (ispe(*claimed),), made_of=tiles)


def heif(
    *parts: Part,
    brands: tuple[bytes, ...] = (b"avif", b"mif1"),
    primary: int = 1,
    after: bytes = b"",
) -> bytes:
    """Items are numbered from 1."""
    start = ftyp(*brands)
    room = len(_meta(parts, primary, [0] * len(parts)))
    places: list[int] = []
    at = len(start) + room + 8
    for part in parts:
        places.append(places[part.same_as - 1] if part.same_as else at)
        at += 0 if part.same_as else len(part.data)
    data = b"".join(part.data for part in parts if not part.same_as)
    return start + _meta(parts, primary, places) + box(b"mdat", data) + after


def _meta(parts: tuple[Part, ...], primary: int, places: list[int]) -> bytes:
    numbered = list(enumerate(parts, start=1))
    kinds = [
        full_box(b"infe", struct.pack(">HH", n, 0), p.kind, b"\0", version=2) for n, p in numbered
    ]
    located = [
        struct.pack(">HHHII", n, 0, 1, place, len(_shared(parts, part).data))
        for (n, part), place in zip(numbered, places, strict=True)
    ]
    properties = [p for part in parts for p in part.properties]
    links, index = [], 1
    for n, part in numbered:
        linked = range(index, index + len(part.properties))
        links.append(
            struct.pack(">HB", n, len(linked)) + b"".join(struct.pack(">H", i) for i in linked)
        )
        index += len(linked)
    references = [
        box(b"dimg", struct.pack(f">HH{len(p.made_of)}H", n, len(p.made_of), *p.made_of))
        for n, p in numbered
        if p.made_of
    ]
    return full_box(
        b"meta",
        full_box(b"hdlr", bytes(4), b"pict", bytes(13)),
        full_box(b"pitm", struct.pack(">H", primary)),
        full_box(b"iinf", struct.pack(">H", len(parts)), *kinds),
        full_box(b"iloc", b"\x44\0", struct.pack(">H", len(parts)), *located),
        box(
            b"iprp",
            box(b"ipco", *properties),
            full_box(b"ipma", struct.pack(">I", len(links)), *links, flags=1),
        ),
        full_box(b"iref", *references),
    )


def _shared(parts: tuple[Part, ...], part: Part) -> Part:
    return parts[part.same_as - 1] if part.same_as else part


@cache
def av1(width: int, height: int) -> Coded:
    """Taken out of a file of Pillow's, in which it is all there is."""
    file = io.BytesIO()
    _drawn(width, height).save(file, "AVIF", speed=10)
    whole = file.getvalue()
    return Coded(b"av01", _content(whole, b"mdat"), box(b"av1C", _content(whole, b"av1C")))


@cache
def hevc(width: int, height: int) -> Coded:
    encoder = av.CodecContext.create("libx265", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.time_base = encoder.framerate = 1  # type: ignore[assignment]
    encoder.options = {"x265-params": "log-level=none:keyint=1:info=0", "preset": "ultrafast"}
    frame = av.VideoFrame.from_ndarray(np.asarray(_drawn(width, height)), format="rgb24")
    stream = b"".join(bytes(p) for p in [*encoder.encode(frame), *encoder.encode(None)])
    units = [
        unit.rstrip(b"\0") for unit in stream.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")[1:]
    ]
    sets = [unit for unit in units if unit[0] >> 1 in {32, 33, 34}]
    data = b"".join(struct.pack(">I", len(u)) + u for u in units if u not in sets)
    return Coded(b"hvc1", data, hvcc(sets))


def hvcc(sets: list[bytes]) -> bytes:
    parameters = next(unit for unit in sets if unit[0] >> 1 == 33)
    arrays = [bytes([unit[0] >> 1]) + struct.pack(">HH", 1, len(unit)) + unit for unit in sets]
    plain = parameters[2:].replace(b"\0\0\3", b"\0\0")
    head = b"\1" + plain[1:13] + b"\xf0\0\xfc\xfd\xf8\xf8\0\0\x0f" + bytes([len(arrays)])
    return box(b"hvcC", head, *arrays)


def _drawn(width: int, height: int) -> Image.Image:
    return Image.linear_gradient("L").resize((width, height)).convert("RGB")


def _content(whole: bytes, kind: bytes) -> bytes:
    at = whole.index(kind)
    (size,) = struct.unpack(">I", whole[at - 4 : at])
    return whole[at + 4 : at - 4 + size]


HEIC = (b"heic", b"mif1", b"heic")


def heic(width: int = 64, height: int = 48, *properties: bytes) -> bytes:
    return heif(still(hevc(width, height), (width, height), *properties), brands=HEIC)


def avif(width: int = 64, height: int = 48) -> bytes:
    return heif(still(av1(width, height), (width, height)))


def open_ended(data: bytes) -> bytes:
    """Its last box goes on to the end of the file, as writers leave it that do not come back."""
    at = data.rindex(b"mdat") - 4
    return data[:at] + bytes(4) + data[at + 4 :]


def tiled(
    tile: Coded, columns: int, rows: int, size: Size, *, claimed: Size | None = None,
    tile_claims: Size = (64, 64), brands: tuple[bytes, ...] = (b"avif", b"mif1"),
) -> bytes:  # fmt: skip
    """All tiles are the same bytes."""
    tiles = [still(tile, tile_claims)] + [
        Part(tile.kind, tile.data, (ispe(*tile_claims), tile.configuration), same_as=2)
    ] * (columns * rows - 1)
    numbers = tuple(range(2, 2 + len(tiles)))
    return heif(grid(rows, columns, size, numbers, claimed or size), *tiles, brands=brands)
