"""Bytes read at positions, of memory or of a file, by those who walk headers.

Guarantees: memory stays flat, since a file is seen through one small window at a time; work has an
end, since every read counts and `MOST_READS` are all there are. Nothing is raised but `Malformed`,
and `CutShort` where the bytes end too early.
"""

from collections.abc import Callable, Sequence
from typing import Final

Size = tuple[int, int]
ReadAt = Callable[[int, int], bytes]  # position and length; fewer bytes only at the end

MOST_READS: Final = 65_536
_WINDOW: Final = 8192
_BEYOND: Final = 2**62  # no file is so long, and to read there is an error instead of no bytes
_MOST_ZEROES: Final = 32


class Malformed(ValueError):
    """The header breaks its format's rules; the message completes 'it …'."""


class Unsupported(Malformed):
    """Its format allows it, and no decoder here opens it; the message completes 'it …', too."""


class CutShort(Malformed):
    """The bytes end before the size."""


class Reader:
    """`complete` says that the file ends where the bytes do."""

    def __init__(self, read_at: ReadAt, *, complete: bool = True) -> None:
        self._read_at = read_at
        self._complete = complete
        self._window, self._from = b"", 0
        self._reads = 0

    @classmethod
    def of(cls, data: bytes, *, complete: bool = True) -> "Reader":
        return cls(lambda at, length: data[at : at + length], complete=complete)

    def some(self, at: int, length: int) -> bytes:
        """Fewer than asked for where the bytes end."""
        self._count()
        if at >= _BEYOND:
            return b""
        begin = at - self._from
        if begin < 0 or begin + length > len(self._window):
            self._window, self._from = self._read_at(at, max(length, _WINDOW)), at
            begin = 0
        return self._window[begin : begin + length]

    def exactly(self, at: int, length: int) -> bytes:
        found = self.some(at, length)
        if len(found) < length:
            raise CutShort
        return found

    def big(self, at: int, length: int) -> int:
        return int.from_bytes(self.exactly(at, length), "big")

    def little(self, at: int, length: int) -> int:
        return int.from_bytes(self.exactly(at, length), "little")

    def ends_at(self, at: int, least: int = 1) -> bool:
        """Whether less than that follows; `CutShort` if it cannot be known."""
        if len(self.some(at, least)) >= least:
            return False
        if not self._complete:
            raise CutShort
        return True

    def _count(self) -> None:
        self._reads += 1
        if self._reads > MOST_READS:
            raise Malformed("has more parts than a header is read for")


class Pieces:
    """What lies in several places of a file, as if it were in one."""

    def __init__(self, file: Reader, extents: Sequence[tuple[int, int]]) -> None:
        self._file = file
        self._extents = extents
        self.length = sum(length for _, length in extents)

    def exactly(self, at: int, length: int) -> bytes:
        if at + length > self.length:
            raise Malformed("has data that ends too early")
        found = b""
        for start, size in self._extents:
            if at < size and length:
                taken = min(length, size - at)
                found += self._file.exactly(start + at, taken)
                at, length = 0, length - taken
            else:
                at -= min(at, size)
        return found


class Fields:
    """A description's numbers, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise Malformed("has a box that is too small for its content")
        self._at += length
        return taken

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length), "big")

    def rest(self) -> bytes:
        return self._data[self._at :]


class Bits:
    """The same for codecs, whose numbers have any number of bits."""

    def __init__(self, data: bytes) -> None:
        self._all = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise Malformed("has a picture header that ends too early")
        return self._all >> self._left & ((1 << count) - 1)

    def flag(self) -> bool:
        return self.take(1) == 1

    def exp_golomb(self) -> int:
        """As many bits again as there were zeroes before the first one."""
        zeroes = 0
        while not self.flag():
            zeroes += 1
            if zeroes > _MOST_ZEROES:
                raise Malformed("has a picture header with a number out of bounds")
        return (1 << zeroes) - 1 + self.take(zeroes)
