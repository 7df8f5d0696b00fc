"""What a clip's container says of itself: its size, its length, and whether it is all there. Pure,
over a file; nothing is decoded, and of a hostile file only so many parts are looked at.

Gap: a container that says nothing of its own length (a live WebM, an MP4 in fragments) can be cut
between two of its parts without anybody noticing.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

_MOST_PARTS: Final = 20_000
_LARGEST_SIDE: Final = 65_535
_TO_THE_END: Final = 0  # an MP4's box, by its size
_LONG_SIZE: Final = 1
_VIDEO: Final = 1  # a WebM's track, by its type
# Ids of WebM's elements
_SEGMENT, _INFO, _TRACKS, _TRACK = 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE
_SCALE, _DURATION = 0x2AD7B1, 0x4489
_TRACK_TYPE, _PICTURE, _WIDTH, _HEIGHT = 0x83, 0xE0, 0xB0, 0xBA


class NotAClip(ValueError):
    """It begins as one and makes no sense."""


class ClipCut(ValueError):
    """It ends before it should."""


@dataclass(frozen=True, slots=True)
class Clip:
    width: int
    height: int
    seconds: float | None  # where the container says


class Part(NamedTuple):
    """A box or an element: what it is, and where its content is."""

    kind: int | bytes
    start: int
    end: int


def clip_of(file: BinaryIO, size: int, content_type: str) -> Clip:
    reading = _Reading(file)
    found = reading.webm(size) if content_type == "video/webm" else reading.mp4(size)
    if not (0 < found.width <= _LARGEST_SIDE and 0 < found.height <= _LARGEST_SIDE):
        raise NotAClip("it has no picture")
    return found


class _Reading:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._parts = 0

    def mp4(self, size: int) -> Clip:
        movie = self._only(b"moov", self._boxes(Part(b"", 0, size)))
        if movie is None:
            raise ClipCut("its index is missing")  # which is often its last part
        inside = list(self._boxes(movie))
        seconds = self._mp4_seconds(self._only(b"mvhd", inside))
        for track in (part for part in inside if part.kind == b"trak"):
            parts = list(self._boxes(track))
            header, media = self._only(b"tkhd", parts), self._only(b"mdia", parts)
            handler = self._only(b"hdlr", self._boxes(media)) if media else None
            if header and handler and self._bytes(handler, 8, 4) == b"vide":
                at = 88 if self._bytes(header, 0, 1) == b"\1" else 76
                width, height = struct.unpack("!II", self._bytes(header, at, 8))
                return Clip(width >> 16, height >> 16, seconds)
        raise NotAClip("it has no picture")

    def webm(self, size: int) -> Clip:
        segment = self._only(_SEGMENT, self._elements(Part(0, 0, size)))
        if segment is None:
            raise ClipCut("it ends with its header")
        seconds, tracks = None, None
        for part in self._elements(segment):
            if part.kind == _INFO:
                seconds = self._webm_seconds(part)
            elif part.kind == _TRACKS:
                tracks = part
        for track in self._elements(tracks) if tracks else ():
            parts = {part.kind: part for part in self._elements(track)}
            if track.kind == _TRACK and self._number(parts.get(_TRACK_TYPE)) == _VIDEO:
                picture = parts.get(_PICTURE)
                sizes = {one.kind: one for one in self._elements(picture)} if picture else {}
                width, height = sizes.get(_WIDTH), sizes.get(_HEIGHT)
                return Clip(self._number(width), self._number(height), seconds)
        raise NotAClip("it has no picture")

    # Parts

    def _boxes(self, within: Part) -> Iterator[Part]:
        at = within.start
        while at + 8 <= within.end:
            self._count()
            size, kind = struct.unpack("!I4s", self._at(at, 8))
            start = at + 8
            if size == _LONG_SIZE:
                size, start = struct.unpack("!Q", self._at(at + 8, 8))[0], at + 16
            end = within.end if size == _TO_THE_END else at + size
            yield self._checked(Part(kind, start, end), within)
            at = end

    def _elements(self, within: Part) -> Iterator[Part]:
        at = within.start
        while at < within.end:
            self._count()
            kind, start = self._vint(at, keep_marker=True)
            size, start = self._vint(start)
            end = within.end if size is None else start + size
            yield self._checked(Part(kind or 0, start, end), within)
            at = end

    def _checked(self, part: Part, within: Part) -> Part:
        if part.end < part.start:
            raise NotAClip("its parts overlap")
        if part.end > within.end:
            raise ClipCut("a part of it is missing")
        return part

    def _count(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise NotAClip("it has too many parts")

    @staticmethod
    def _only(kind: int | bytes, parts: "Iterator[Part] | list[Part]") -> Part | None:
        found = [part for part in parts if part.kind == kind]  # all are looked at, to the last
        return found[0] if found else None

    # What is in them

    def _mp4_seconds(self, header: Part | None) -> float | None:
        if header is None:
            return None
        long = self._bytes(header, 0, 1) == b"\1"
        form, at = ("!IQ", 20) if long else ("!II", 12)
        scale, duration = struct.unpack(form, self._bytes(header, at, struct.calcsize(form)))
        return duration / scale if scale and duration else None

    def _webm_seconds(self, info: Part) -> float | None:
        parts = {part.kind: part for part in self._elements(info)}
        length = parts.get(_DURATION)
        form = {4: "!f", 8: "!d"}.get(length.end - length.start) if length else None
        if length is None or form is None:
            return None
        ticks = struct.unpack(form, self._at(length.start, length.end - length.start))[0]
        seconds = ticks * (self._number(parts.get(_SCALE)) or 1_000_000) / 1e9
        return seconds if 0 < seconds < 1e9 else None  # noqa: PLR2004 - and not "not a number"

    def _number(self, part: Part | None) -> int:
        return int.from_bytes(self._bytes(part, 0, min(part.end - part.start, 8))) if part else 0

    def _vint(self, at: int, *, keep_marker: bool = False) -> tuple[int | None, int]:
        """A number whose first bit says how long it is, and where it ends; None: unknown."""
        first = self._at(at, 1)[0]
        length = 9 - first.bit_length()
        if length > 8:  # noqa: PLR2004 - bytes
            raise NotAClip("a number in it makes no sense")
        value = int.from_bytes(self._at(at, length))
        if keep_marker:
            return value, at + length
        value &= (1 << 7 * length) - 1
        return (None if value == (1 << 7 * length) - 1 else value), at + length

    def _bytes(self, part: Part, offset: int, count: int) -> bytes:
        if part.start + offset + count > part.end:
            raise NotAClip("a part of it is too short")
        return self._at(part.start + offset, count)

    def _at(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        found = self._file.read(count)
        if len(found) < count:
            raise ClipCut("it ends within a part")
        return found
