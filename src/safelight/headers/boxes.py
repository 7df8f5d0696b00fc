"""The boxes that AVIF and HEIC files are made of, and the brands in the first of them.

Guarantees: a box never reaches past the one that holds it, and every step goes forward.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from safelight.headers.reading import Fields, Malformed, Reader, Unsupported

AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})
HEIC_BRANDS: Final = frozenset(
    {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
)
GENERIC_BRANDS: Final = frozenset({b"mif1", b"mif2", b"msf1", b"miaf"})

MOST_DESCRIPTION: Final = 1024 * 1024

_END_OF_FILE: Final = 2**64
_HEADER: Final = 8
_LONG_HEADER: Final = 16
_LONG_SIZE: Final = 1


class Box(NamedTuple):
    """`start` is where the content starts; `end` of a file's last box may lie past the file."""

    kind: bytes
    start: int
    end: int


def brands(head: bytes) -> list[bytes]:
    """Those of the `ftyp` box that lie in `head`, the major brand first; none without the box."""
    if head[4:8] != b"ftyp" or _ftyp_end(head) < _LONG_HEADER:
        return []
    end = min(_ftyp_end(head), len(head))
    return [head[8:12], *(head[at : at + 4] for at in range(16, end - 3, 4))]


def brands_go_on(head: bytes) -> bool:
    return _ftyp_end(head) > len(head)


def _ftyp_end(head: bytes) -> int:
    return int.from_bytes(head[:4], "big")


def boxes_of_file(file: Reader) -> Iterator[Box]:
    """A few bytes behind the last, too short for a box, are nobody's."""
    at = 0
    while not file.ends_at(at, _HEADER):
        box = _box(file, at, _END_OF_FILE)
        yield box
        at = box.end


class Description:
    """The content of a box that describes: small, read at once, its boxes looked up by kind."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    @classmethod
    def of_file(cls, file: Reader, box: Box) -> "Description":
        length = min(box.end - box.start, MOST_DESCRIPTION + 1)
        if box.end == _END_OF_FILE:
            content = file.some(box.start, length)
            file.ends_at(box.start + len(content))
        else:
            content = file.exactly(box.start, length)
        if len(content) > MOST_DESCRIPTION:
            raise Unsupported("describes itself in more than 1 MiB")
        return cls(content)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        reader, at, end = Reader.of(self.content), 0, len(self.content)
        while at < end:
            box = _box(reader, at, end)
            yield box.kind, self.content[box.start : box.end]
            at = box.end

    def all(self, kind: bytes) -> list[bytes]:
        return [content for found, content in self if found == kind]

    def one(self, *path: bytes) -> bytes | None:
        """The content of the only box of that kind, or of the one inside it, and so on."""
        content: bytes | None = self.content
        for kind in path:
            found = Description(content).all(kind) if content is not None else []
            if len(found) > 1:
                raise Malformed(f"has {len(found)} boxes of a kind there can be one of")
            content = found[0] if found else None
        return content


def full_box(content: bytes) -> tuple[int, int, Fields]:
    """Version, flags and what follows."""
    fields = Fields(content)
    return fields.number(1), fields.number(3), fields


def _box(reader: Reader, at: int, parent_end: int) -> Box:
    size, header = reader.big(at, 4), _HEADER
    kind = reader.exactly(at + 4, 4)
    if size == _LONG_SIZE:
        size, header = reader.big(at + _HEADER, 8), _LONG_HEADER
    end = at + size if size else parent_end
    if end < at + header or end > parent_end:
        raise Malformed("has a box that does not fit into its surroundings")
    return Box(kind, at + header, end)
