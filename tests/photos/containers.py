"""The bytes around a picture, as cameras and editors write them: segments, chunks, boxes, trailers."""

import struct
import zlib
from collections.abc import Iterable
from typing import Final

SRGB_TABLE: Final = bytes(range(256)) * 300  # what makes a profile of a printer large
_EXTENDED: Final = b"http://ns.adobe.com/xmp/extension/\0"
_GUID: Final = b"0123456789ABCDEF0123456789ABCDEF"
_MOST: Final = 65_533  # that a segment holds


# JPEG


def segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """Right behind the start, where cameras put them."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def xmp(body: bytes) -> bytes:
    packet = (
        b'<?xpacket begin="\xef\xbb\xbf" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta '
        b'xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        b"<rdf:Description " + body + b"/></rdf:RDF></x:xmpmeta><?xpacket end='w'?>"
    )
    return packet


def xmp_segment(body: bytes) -> bytes:
    return segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(body))


def extended_xmp(content: bytes) -> list[bytes]:
    """In as many segments as it takes: depth maps come to megabytes."""
    room = _MOST - len(_EXTENDED) - len(_GUID) - 8
    note = b'xmlns:xmpNote="http://ns.adobe.com/xmp/note/" xmpNote:HasExtendedXMP="' + _GUID + b'"'
    parts = [
        segment(0xE1, _EXTENDED + _GUID + struct.pack(">II", len(content), at) + piece)
        for at, piece in _pieces(content, room)
    ]
    return [xmp_segment(note), *parts]


def profile_segments(profile: bytes) -> list[bytes]:
    pieces = list(_pieces(profile, _MOST - 14))
    return [
        segment(0xE2, b"ICC_PROFILE\0" + bytes([number, len(pieces)]) + piece)
        for number, (_, piece) in enumerate(pieces, 1)
    ]


def large_profile(profile: bytes) -> bytes:
    """A profile with a table in it that nobody has to read."""
    whole = profile + SRGB_TABLE
    return struct.pack(">I", len(whole)) + whole[4:]


def photoshop(content: bytes) -> bytes:
    return segment(
        0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0" + struct.pack(">I", len(content)) + content
    )


def _pieces(content: bytes, room: int) -> Iterable[tuple[int, bytes]]:
    return ((at, content[at : at + room]) for at in range(0, len(content), room))


# PNG


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of_16_bits(width: int, height: int, colours: int) -> bytes:
    """Slopes of gray (0), colour (2), gray with alpha (4) or colour with alpha (6)."""
    bands = {0: 1, 2: 3, 4: 2, 6: 4}[colours]
    rows = b"".join(
        b"\0" + b"".join(struct.pack(">H", (x * 1021 + y * 517 + band * 9000) % 65536)
                         for x in range(width) for band in range(bands))
        for y in range(height)
    )  # fmt: skip
    header = struct.pack(">IIBBBBB", width, height, 16, colours, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


# Behind the end


def box(kind: bytes, *content: bytes) -> bytes:
    inside = b"".join(content)
    return struct.pack(">I", len(inside) + 8) + kind + inside


def full_box(kind: bytes, version: int, flags: int, *content: bytes) -> bytes:
    return box(kind, struct.pack(">I", version << 24 | flags), *content)


def clip(drawn: bytes = b"\x55" * 20_000) -> bytes:
    """The short video of a motion photo."""
    brand = box(b"ftyp", b"mp42", bytes(4), b"mp42isom")
    return brand + box(b"moov", full_box(b"mvhd", 0, 0, bytes(96))) + box(b"mdat", drawn)


def samsung_trailer() -> bytes:
    notes = b"\0\0\x30\x0a\x10\0\0\0MotionPhoto_Data" + clip()
    return notes + b"SEFH\x6a\0\0\0\x01\0\0\0" + struct.pack("<I", len(notes)) + b"SEFT"


# AVIF and HEIC


def grid(kind: bytes, picture: bytes, rows: int, columns: int, side: int) -> bytes:
    """Tiles with the same content, each with bytes of its own: how phones store what their encoder
    cannot take in one piece. `kind` is av01 or hvc1, `picture` a file that holds one such tile."""
    tile = _content(picture, b"mdat")
    name = b"av1C" if kind == b"av01" else b"hvcC"
    numbers = range(2, 2 + rows * columns)
    width, height = columns * side, rows * side
    layout = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, width, height)
    ftyp = box(b"ftyp", b"avif" if kind == b"av01" else b"heic", bytes(4), b"mif1miaf")
    entries = [full_box(b"infe", 2, 0, struct.pack(">HH", 1, 0), b"grid\0")]
    entries += [full_box(b"infe", 2, 0, struct.pack(">HH", n, 0), kind + b"\0") for n in numbers]
    properties = box(
        b"ipco",
        full_box(b"ispe", 0, 0, struct.pack(">II", width, height)),
        full_box(b"ispe", 0, 0, struct.pack(">II", side, side)),
        box(name, _content(picture, name)),
        full_box(b"pixi", 0, 0, b"\3\x08\x08\x08"),
    )
    owns = [struct.pack(">HB", 1, 2) + b"\1\4"]
    owns += [struct.pack(">HB", n, 3) + b"\2\x83\4" for n in numbers]
    links = struct.pack(f">HH{len(numbers)}H", 1, len(numbers), *numbers)

    def meta(data_at: int) -> bytes:
        places = [(1, data_at, len(layout))]
        places += [
            (n, data_at + len(layout) + i * len(tile), len(tile)) for i, n in enumerate(numbers)
        ]
        located = b"".join(struct.pack(">HHHII", n, 0, 1, at, size) for n, at, size in places)
        return full_box(
            b"meta", 0, 0,
            full_box(b"hdlr", 0, 0, bytes(4), b"pict", bytes(13)),
            full_box(b"pitm", 0, 0, struct.pack(">H", 1)),
            full_box(b"iloc", 0, 0, b"\x44\0", struct.pack(">H", len(places)), located),
            full_box(b"iinf", 0, 0, struct.pack(">H", len(entries)), *entries),
            full_box(b"iref", 0, 0, box(b"dimg", links)),
            box(b"iprp", properties, full_box(b"ipma", 0, 0, struct.pack(">I", len(owns)), *owns)),
        )  # fmt: skip

    data_at = len(ftyp) + len(meta(0)) + 8
    return ftyp + meta(data_at) + box(b"mdat", layout, tile * len(numbers))


def _content(file: bytes, kind: bytes) -> bytes:
    """Of the box of that kind, wherever it stands."""
    at = file.index(kind)
    size: int = struct.unpack(">I", file[at - 4 : at])[0]
    return file[at + 4 : at - 4 + size]


def claiming(data: bytes, real: int, claimed: int) -> bytes:
    """The container says another size than what is coded has."""
    said = b"ispe\0\0\0\0" + struct.pack(">II", real, real)
    assert said in data
    return data.replace(said, b"ispe\0\0\0\0" + struct.pack(">II", claimed, claimed))
