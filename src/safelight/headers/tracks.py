"""The sizes of an AVIF sequence's tracks, each held against every one of its frames."""

from collections.abc import Iterator
from typing import Final

from safelight.headers.boxes import Description, full_box
from safelight.headers.coded import CodedSize, av1_configuration, av1_sizes, most_pixels
from safelight.headers.reading import Fields, Malformed, Pieces, Reader, Size

_MOST_FRAMES: Final = 4096
_MOST_TRACKS: Final = 16  # a sequence has one, and one more for its transparency
_SAMPLE_ENTRY: Final = 78  # bytes of a video's sample entry before its boxes


def track_sizes(file: Reader, moov: Description) -> Iterator[tuple[Size, int]]:
    """The claim of each AV1 track, and how many pixels its largest frame has."""
    tracks = moov.all(b"trak")
    if len(tracks) > _MOST_TRACKS:
        raise Malformed(f"has more than {_MOST_TRACKS} tracks")
    for content in tracks:
        track = Description(content)
        header, table = track.one(b"tkhd"), track.one(b"mdia", b"minf", b"stbl")
        if header is None or table is None:
            continue
        claimed, samples = _track_size(header), Description(table)
        descriptions = _av1_descriptions(samples)
        if descriptions:
            sizes = _frame_sizes(file, descriptions, samples)
            yield claimed, most_pixels(claimed, sizes)


def _track_size(tkhd: bytes) -> Size:
    """Fixed-point numbers at the end of the box, after fields whose length the version decides."""
    version, _, fields = full_box(tkhd)
    fields.take(84 if version else 72)
    return fields.number(4) >> 16, fields.number(4) >> 16


def _av1_descriptions(samples: Description) -> list[Description]:
    _, _, fields = full_box(samples.one(b"stsd") or bytes(8))
    fields.take(4)
    entries = Description(fields.rest()).all(b"av01")
    return [Description(entry[_SAMPLE_ENTRY:]) for entry in entries]


def _frame_sizes(
    file: Reader, descriptions: list[Description], samples: Description
) -> Iterator[CodedSize]:
    for description in descriptions:
        for content in description.all(b"av1C"):
            yield from av1_configuration(content)
    yield from av1_sizes(Pieces(file, [frame]) for frame in _frames(samples))


def _frames(samples: Description) -> Iterator[tuple[int, int]]:
    """Where each frame lies: its chunk's place, and the lengths of those before it in the chunk."""
    lengths = iter(_lengths(samples))
    runs = _runs(samples)
    per_chunk = 0
    for chunk, place in enumerate(_places(samples), start=1):
        per_chunk = runs.get(chunk, per_chunk)
        at = place
        for _ in range(min(per_chunk, _MOST_FRAMES)):
            length = next(lengths, None)
            if length is None:
                return
            yield at, length
            at += length


def _lengths(samples: Description) -> list[int]:
    _, _, fields = full_box(samples.one(b"stsz") or bytes(12))
    common, count = fields.number(4), fields.number(4)
    if count > _MOST_FRAMES:
        raise Malformed(f"has more than {_MOST_FRAMES:,} frames")
    return [common or fields.number(4) for _ in range(count)]


def _runs(samples: Description) -> dict[int, int]:
    """From which chunk on how many frames are in each."""
    _, _, fields = full_box(samples.one(b"stsc") or bytes(8))
    runs = {}
    for _ in range(_count(fields)):
        first, per_chunk, _description = (fields.number(4) for _ in range(3))
        runs[first] = per_chunk
    return runs


def _places(samples: Description) -> Iterator[int]:
    for kind, length in ((b"stco", 4), (b"co64", 8)):
        content = samples.one(kind)
        if content is not None:
            _, _, fields = full_box(content)
            yield from (fields.number(length) for _ in range(_count(fields)))


def _count(fields: Fields) -> int:
    count = fields.number(4)
    if count > _MOST_FRAMES:
        raise Malformed(f"has more than {_MOST_FRAMES:,} frames")
    return count
