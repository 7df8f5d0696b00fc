"""Width and height of an AVIF file: the primary item's `ispe`, else a sequence's track header.

Guarantees: boxes are walked with loops that always advance, each byte a bounded number of times;
a box may reach past the bytes given but never past the box that holds it; nothing is raised but
`Malformed` and `CutShort`. Rotation, mirroring and cropping properties are left alone.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

Size = tuple[int, int]

AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})
HEIC_BRANDS: Final = frozenset(
    {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
)
GENERIC_BRANDS: Final = frozenset({b"mif1", b"mif2", b"msf1", b"miaf"})

_END_OF_FILE: Final = 2**64
_HEADER: Final = 8
_LONG_HEADER: Final = 16
_LONG_SIZE: Final = 1
_FULL_BOX: Final = 4


class Malformed(ValueError):
    """The header breaks its format's rules; the message completes 'it …'."""


class CutShort(Malformed):
    """The bytes end before the size."""


class AvifBox(NamedTuple):
    """`start` is where the content starts; `end` may lie past the bytes that were given."""

    kind: bytes
    start: int
    end: int


def brands(head: bytes) -> list[bytes]:
    """Those of the `ftyp` box that lie in `head`, the major brand first; none without the box."""
    if head[4:8] != b"ftyp" or _ftyp_end(head) < _LONG_HEADER:
        return []
    end = min(_ftyp_end(head), len(head))
    return [head[8:12], *(head[at : at + 4] for at in range(16, end - 3, 4))]


def may_be_avif(head: bytes) -> bool:
    """Whether the brands say AVIF, or still may because their list goes on after `head`."""
    found = brands(head)
    goes_on = bool(found) and _ftyp_end(head) > len(head)
    return goes_on or not AVIF_BRANDS.isdisjoint(found)


def _ftyp_end(head: bytes) -> int:
    return int.from_bytes(head[:4], "big")


def avif_size(head: bytes) -> Size:
    is_sequence = b"avis" in brands(head)
    track: Size | None = None
    try:
        for box in _boxes(head, 0, _END_OF_FILE):
            if box.kind == b"meta" and (item := _primary_item_size(head, box)):
                return item
            if box.kind == b"moov" and is_sequence and track is None:
                track = _track_size(head, box)
    except CutShort:
        if track is None:
            raise
    if track is None:
        raise Malformed("gives no size for its primary picture")
    return track


def _boxes(head: bytes, at: int, end: int) -> Iterator[AvifBox]:
    while at < end:
        box = _box(head, at, end)
        yield box
        at = box.end


def _box(head: bytes, at: int, parent_end: int) -> AvifBox:
    size, header = _big(head, at, 4), _HEADER
    kind = _big(head, at + 4, 4).to_bytes(4, "big")
    if size == _LONG_SIZE:
        size, header = _big(head, at + _HEADER, 8), _LONG_HEADER
    end = at + size if size else parent_end
    if end < at + header or end > parent_end:
        raise Malformed("has a box that does not fit into its surroundings")
    return AvifBox(kind, at + header, end)


def _first(head: bytes, parent: AvifBox, kind: bytes) -> AvifBox | None:
    return next((box for box in _boxes(head, parent.start, parent.end) if box.kind == kind), None)


def _number(head: bytes, box: AvifBox, offset: int, length: int) -> int:
    if box.start + offset + length > box.end:
        raise Malformed("has a box that is too small for its content")
    return _big(head, box.start + offset, length)


def _primary_item_size(head: bytes, meta: AvifBox) -> Size | None:
    content = meta._replace(start=meta.start + _FULL_BOX)
    primary = _first(head, content, b"pitm")
    properties = _first(head, content, b"iprp")
    if primary is None or properties is None:
        return None
    id_length = 4 if _number(head, primary, 0, 1) else 2
    return _item_size(head, properties, _number(head, primary, _FULL_BOX, id_length))


def _item_size(head: bytes, properties: AvifBox, item: int) -> Size | None:
    """By association, not the largest: in a grid each tile has a size of its own."""
    container = _first(head, properties, b"ipco")
    if container is None:
        return None
    extents = {
        index: box
        for index, box in enumerate(_boxes(head, container.start, container.end), start=1)
        if box.kind == b"ispe"
    }
    for box in _boxes(head, properties.start, properties.end):
        if box.kind == b"ipma":
            for index in _associations(head, box, item):
                if extent := extents.get(index):
                    return _number(head, extent, 4, 4), _number(head, extent, 8, 4)
    return None


def _associations(head: bytes, ipma: AvifBox, item: int) -> Iterator[int]:
    """The property indices of one item, counted from 1."""
    id_length = 4 if _number(head, ipma, 0, 1) else 2
    length = 2 if _number(head, ipma, 1, 3) & 1 else 1
    without_essential_bit = (1 << (8 * length - 1)) - 1
    at = 8
    for _ in range(_number(head, ipma, 4, 4)):
        owner = _number(head, ipma, at, id_length)
        count = _number(head, ipma, at + id_length, 1)
        at += id_length + 1
        if owner == item:
            for nth in range(count):
                yield _number(head, ipma, at + nth * length, length) & without_essential_bit
        at += count * length


def _track_size(head: bytes, moov: AvifBox) -> Size | None:
    """The first track with a size; an audio track has none."""
    for track in _boxes(head, moov.start, moov.end):
        if track.kind == b"trak" and (header := _first(head, track, b"tkhd")):
            size = _track_header_size(head, header)
            if all(size):
                return size
    return None


def _track_header_size(head: bytes, tkhd: AvifBox) -> Size:
    """Fixed-point numbers at the end of the box, after fields whose length the version decides."""
    at = 88 if _number(head, tkhd, 0, 1) else 76
    return _number(head, tkhd, at, 4) >> 16, _number(head, tkhd, at + 4, 4) >> 16


def _big(head: bytes, at: int, length: int) -> int:
    chunk = head[at : at + length]
    if len(chunk) < length:
        raise CutShort
    return int.from_bytes(chunk, "big")
