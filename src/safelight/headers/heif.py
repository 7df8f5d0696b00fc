"""Width and height of AVIF and HEIC files, which share their container, held against what is coded.

Guarantees: the size is that of the primary item, else of a sequence's track. Every coded item of
the file, every frame of its tracks and every tile of its grids has the size that is claimed for it,
or the file is `Malformed`; so a decoder meets no picture larger than `HeifHeader.pixels`. Rotation,
mirroring and cropping properties are left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from safelight.headers.boxes import Description, boxes_of_file, full_box
from safelight.headers.coded import (
    CodedSize,
    av1_configuration,
    av1_sizes,
    hevc_configuration,
    hevc_sizes,
    most_pixels,
)
from safelight.headers.reading import Fields, Malformed, Pieces, Reader, Size, Unsupported
from safelight.headers.tracks import track_sizes

_AV1: Final = frozenset({b"av01"})
_HEVC: Final = frozenset({b"hvc1", b"hev1"})
_CODED: Final = _AV1 | _HEVC
_OPENED: Final = _CODED | {b"grid"}
_MOST_ITEMS: Final = 4096
_MOST_EXTENTS: Final = 16  # of one item
_MOST_PROPERTIES: Final = 256
_MOST_ASSOCIATIONS: Final = 16_384  # of all items: each picture looks through its own
_IN_FILE, _IN_DESCRIPTION = 0, 1

Extents = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class HeifHeader:
    size: Size
    pixels: int  # of the largest picture that has to be decoded
    is_avif: bool


@dataclass(slots=True)
class Item:
    """Of a file; what kind of thing it is, where its data lies, what is said about it."""

    kind: bytes = b""
    method: int = _IN_FILE
    extents: Extents = ()
    properties: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeifPicture:
    size: Size | None
    pixels: int
    is_avif: bool


def heif_header(file: Reader) -> HeifHeader:
    found: dict[bytes, Description] = {}
    for box in boxes_of_file(file):
        if box.kind in {b"meta", b"moov"}:
            if box.kind in found:
                raise Malformed("describes itself twice")
            found[box.kind] = Description.of_file(file, box)
    pictures = list(_of_items(file, found[b"meta"])) if b"meta" in found else []
    if b"moov" in found:
        tracks = track_sizes(file, found[b"moov"])
        pictures += [HeifPicture(size, pixels, is_avif=True) for size, pixels in tracks]
    if not pictures:
        raise (Unsupported if b"moov" in found else Malformed)("has no still picture")
    first, size = pictures[0], pictures[0].size
    if size is None:
        raise Malformed("gives no size for its primary picture")
    return HeifHeader(size, max(picture.pixels for picture in pictures), first.is_avif)


def _of_items(file: Reader, meta: Description) -> Iterator[HeifPicture]:
    """The primary one first; without one there are none."""
    _, _, content = full_box(meta.content)
    described = Description(content.rest())
    if (box := described.one(b"pitm")) is not None:
        version, _, fields = full_box(box)
        primary = fields.number(4 if version else 2)
        still = _Still(file, described)
        if primary in still.items and still.items[primary].kind not in _OPENED:
            raise Unsupported("keeps its picture in a form that is not opened here")
        yield still.picture(primary)
        yield from (still.picture(item) for item in still.items if item != primary)


class _Still:
    """The file's pictures, by the numbers of their items."""

    def __init__(self, file: Reader, meta: Description) -> None:
        self._file = file
        self._inside = Reader.of(meta.one(b"idat") or b"")
        self._properties = list(Description(meta.one(b"iprp", b"ipco") or b""))
        self._known: dict[int, HeifPicture] = {}
        self._av1c, self._hvcc = cache(av1_configuration), cache(hevc_configuration)
        self.items = _items(meta)

    def picture(self, number: int) -> HeifPicture:
        """Looked at once, however often it is a tile."""
        if number not in self._known:
            self._known[number] = self._look(self.items.get(number, Item()))
        return self._known[number]

    def _look(self, item: Item) -> HeifPicture:
        if item.kind in _CODED:
            return self._coded(item)
        if item.kind == b"grid":
            return self._grid(item)
        return HeifPicture(None, 0, is_avif=False)  # metadata, or what no decoder of ours opens

    def _coded(self, item: Item) -> HeifPicture:
        size, is_avif = self._extent(item), item.kind in _AV1
        sizes = self._av1_sizes(item) if is_avif else self._hevc_sizes(item)
        return HeifPicture(size, most_pixels(size, sizes), is_avif)

    def _av1_sizes(self, item: Item) -> Iterator[CodedSize]:
        for content in self._of_kind(item, b"av1C"):
            yield from self._av1c(content)
        yield from av1_sizes([self._data(item)])

    def _hevc_sizes(self, item: Item) -> Iterator[CodedSize]:
        for content in self._of_kind(item, b"hvcC"):
            length_bytes, sizes = self._hvcc(content)
            yield from sizes
            yield from hevc_sizes(self._data(item), length_bytes)

    def _grid(self, item: Item) -> HeifPicture:
        """All tiles have one size, and together they cover what is shown with none to spare."""
        rows, columns, output = _layout(self._data(item))
        kinds = {self.items.get(number, Item()).kind for number in item.parts}
        if len(item.parts) != rows * columns or not kinds <= _CODED:
            raise Malformed("is a grid without all of its tiles")
        pictures = [self.picture(number) for number in item.parts]
        size = pictures[0].size
        if size is None or self._extent(item) != output or {p.size for p in pictures} != {size}:
            raise Malformed("is a grid whose sizes contradict each other")
        for tile, count, length in zip(size, (columns, rows), output, strict=True):
            if not tile * (count - 1) < length <= tile * count:
                raise Malformed("is a grid whose tiles are too many or too few for its size")
        return HeifPicture(output, sum(p.pixels for p in pictures), pictures[0].is_avif)

    def _data(self, item: Item) -> Pieces:
        if item.method > _IN_DESCRIPTION:
            raise Unsupported("keeps a picture inside another")
        return Pieces(self._inside if item.method else self._file, item.extents)

    def _extent(self, item: Item) -> Size | None:
        found = {_extent(content) for content in self._of_kind(item, b"ispe")}
        if len(found) > 1:
            raise Malformed("gives a picture more than one size")
        return found.pop() if found else None

    def _of_kind(self, item: Item, kind: bytes) -> list[bytes]:
        known = self._properties
        indices = [index - 1 for index in item.properties if 0 < index <= len(known)]
        return [known[index][1] for index in indices if known[index][0] == kind]


def _extent(content: bytes) -> Size:
    _, _, fields = full_box(content)
    return fields.number(4), fields.number(4)


def _layout(data: Pieces) -> tuple[int, int, Size]:
    """A grid's rows and columns, and its size."""
    fields = Fields(data.exactly(0, min(data.length, 12)))
    fields.take(1)
    length = 4 if fields.number(1) & 1 else 2
    rows, columns = fields.number(1) + 1, fields.number(1) + 1
    return rows, columns, (fields.number(length), fields.number(length))


# What a description says about its items


def _items(meta: Description) -> dict[int, Item]:
    items: dict[int, Item] = {}
    for number, kind in _kinds(meta.one(b"iinf")):
        if number in items or len(items) == _MOST_ITEMS:
            raise Malformed("names an item twice, or too many of them")
        items[number] = Item(kind)
    _locate(items, meta)
    _characterize(items, meta)
    for number, parts in _parts(meta.one(b"iref")):
        if number in items:
            items[number].parts += parts
    if sum(len(item.parts) for item in items.values()) > _MOST_ITEMS:
        raise Malformed("is put together from too many parts")
    return items


def _locate(items: dict[int, Item], meta: Description) -> None:
    located = set()
    for number, method, extents in _locations(meta.one(b"iloc")):
        if number in located:
            raise Malformed("has an item in two places")
        located.add(number)
        if number in items:
            items[number].method, items[number].extents = method, extents


def _characterize(items: dict[int, Item], meta: Description) -> None:
    said = 0
    for association in Description(meta.one(b"iprp") or b"").all(b"ipma"):
        for number, properties in _associations(association):
            said += 1 + len(properties)
            if said > _MOST_ASSOCIATIONS:
                raise Malformed("says too much about its items")
            if number in items:
                items[number].properties += properties
                if len(items[number].properties) > _MOST_PROPERTIES:
                    raise Malformed("says too much about one item")


def _kinds(iinf: bytes | None) -> Iterator[tuple[int, bytes]]:
    if iinf is None:
        return
    version, _, fields = full_box(iinf)
    fields.take(4 if version else 2)
    for entry in Description(fields.rest()).all(b"infe"):
        version, _, fields = full_box(entry)
        if version >= 2:  # noqa: PLR2004 - earlier ones have no kinds
            number = fields.number(2 if version == 2 else 4)  # noqa: PLR2004
            fields.take(2)
            yield number, fields.take(4)


def _locations(iloc: bytes | None) -> Iterator[tuple[int, int, Extents]]:
    if iloc is None:
        return
    version, _, fields = full_box(iloc)
    widths = fields.number(2)
    offset, length, base, index = (widths >> shift & 15 for shift in (12, 8, 4, 0))
    number_bytes = 4 if version == 2 else 2  # noqa: PLR2004
    for _ in range(_at_most(_MOST_ITEMS, fields.number(number_bytes), "items")):
        number = fields.number(number_bytes)
        method = fields.number(2) & 15 if version else _IN_FILE
        fields.take(2)
        start, extents = fields.number(base), []
        for _ in range(_at_most(_MOST_EXTENTS, fields.number(2), "pieces of an item")):
            fields.take(index if version else 0)
            extents.append((start + fields.number(offset), fields.number(length)))
        yield number, method, tuple(extents)


def _at_most(most: int, count: int, what: str) -> int:
    """Asked before they are read: a number that takes no bytes can be read without end."""
    if count > most:
        raise Malformed(f"has more than {most:,} {what}")
    return count


def _associations(ipma: bytes) -> Iterator[tuple[int, list[int]]]:
    """The property indices of each item, counted from 1; their upper bit says "essential"."""
    version, flags, fields = full_box(ipma)
    length = 2 if flags & 1 else 1
    mask = (1 << (8 * length - 1)) - 1
    for _ in range(fields.number(4)):
        number = fields.number(4 if version else 2)
        yield number, [fields.number(length) & mask for _ in range(fields.number(1))]


def _parts(iref: bytes | None) -> Iterator[tuple[int, list[int]]]:
    """What each grid is made of."""
    if iref is None:
        return
    version, _, fields = full_box(iref)
    length = 4 if version else 2
    for content in Description(fields.rest()).all(b"dimg"):
        fields = Fields(content)
        yield fields.number(length), [fields.number(length) for _ in range(fields.number(2))]
