"""The sizes that coded pictures really have: AV1's sequence headers and HEVC's parameter sets.

A container may claim any size; what a decoder makes of it is said here. All of a picture's data is
walked, from unit to unit, because each that gives a size counts: a decoder goes by the last one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from safelight.headers.reading import Bits, Fields, Malformed, Pieces, Reader, Size

_ENOUGH: Final = 256  # bytes; sequence headers and parameter sets say their size long before

_AV1_SEQUENCE: Final = 1
_AV1_FRAMES: Final = frozenset({3, 6})  # a frame's header, alone or with its data
_AV1_SWITCH: Final = 3
_CHOSEN_BY_FRAME: Final = 2

_HEVC_PARAMETERS: Final = 33
_MOST_PARAMETERS: Final = 64
_HEVC_SUBSAMPLING: Final = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}


class CodedSize(NamedTuple):
    """`shown` is what is left after cropping; `most` is what may have to be decoded for it."""

    shown: Size
    most: Size


def most_pixels(claimed: Size | None, sizes: Iterable[CodedSize]) -> int:
    """What decoding takes, if every size there is agrees with what is claimed."""
    most = 0
    for coded in sizes:
        if claimed is not None and claimed not in coded:
            (width, height), (real_width, real_height) = claimed, coded.shown
            raise Malformed(
                f"says {width} × {height} pixels and holds a picture of"
                f" {real_width} × {real_height}"
            )
        most = max(most, coded.most[0] * coded.most[1])
    if not most:
        raise Malformed("holds a picture that does not say its size")
    return most


# AV1


@dataclass(frozen=True, slots=True)
class _Sequence:
    """What has to be known to read on in a frame's header."""

    reduced: bool
    width_bits: int
    height_bits: int
    size: Size
    frame_id_bits: int
    presentation_bits: int  # of a shown frame's time
    screen_content: int
    integer_mv: int

    @property
    def room(self) -> Size:
        """The largest size that a frame of its own size can give itself."""
        return 1 << self.width_bits, 1 << self.height_bits


def av1_configuration(av1c: bytes) -> list[CodedSize]:
    """It may repeat the sequence header."""
    if len(av1c) > _ENOUGH:
        raise Malformed("has a configuration that is too long")
    return list(av1_sizes([Pieces(Reader.of(av1c), [(4, max(len(av1c) - 4, 0))])]))


def av1_sizes(frames: Iterable[Pieces]) -> Iterator[CodedSize]:
    """A frame without a sequence header goes on with that of a frame before it."""
    sequence: _Sequence | None = None
    for data in frames:
        for kind, start, end in _av1_units(data):
            if kind not in {_AV1_SEQUENCE, *_AV1_FRAMES}:
                continue
            bits = Bits(data.exactly(start, min(end - start, _ENOUGH)))
            if kind == _AV1_SEQUENCE:
                sequence = _av1_sequence(bits)
                yield CodedSize(sequence.size, sequence.size)
            elif sequence and _has_own_size(bits, sequence):
                yield CodedSize(sequence.size, sequence.room)


def _av1_units(data: Pieces) -> Iterator[tuple[int, int, int]]:
    """Kind, start and end of each."""
    at = 0
    while at < data.length:
        head = data.exactly(at, 1)[0]
        at += 2 if head & 4 else 1
        length = data.length - at
        if head & 2:
            length, at = _leb128(data, at)
        if not 0 <= length <= data.length - at:
            raise Malformed("has picture data that does not fit into its place")
        yield head >> 3 & 15, at, at + length
        at += length


def _leb128(data: Pieces, at: int) -> tuple[int, int]:
    value = 0
    for nth in range(8):
        byte = data.exactly(at + nth, 1)[0]
        value |= (byte & 127) << (7 * nth)
        if byte < 128:  # noqa: PLR2004 - the upper bit says that more follow
            return value, at + nth + 1
    raise Malformed("has picture data whose length never ends")


def _av1_sequence(bits: Bits) -> _Sequence:
    bits.take(4)
    reduced = bits.flag()
    presentation_bits = 0
    if reduced:
        bits.take(5)
    else:
        presentation_bits = _av1_operating_points(bits)
    width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
    size = bits.take(width_bits) + 1, bits.take(height_bits) + 1
    frame_id_bits = 0
    if not reduced and bits.flag():
        frame_id_bits = bits.take(4) + bits.take(3) + 3
    bits.take(3)
    screen_content, integer_mv = (2, 2) if reduced else _av1_tools(bits)
    return _Sequence(
        reduced, width_bits, height_bits, size,
        frame_id_bits, presentation_bits, screen_content, integer_mv,
    )  # fmt: skip


def _av1_operating_points(bits: Bits) -> int:
    """Steps over them; how many bits a frame's time has, if frames have one."""
    delay_bits = presentation_bits = 0
    if bits.flag():
        bits.take(64)
        equal_intervals = bits.flag()
        if equal_intervals:
            bits.exp_golomb()
        if bits.flag():
            delay_bits = bits.take(5) + 1
            bits.take(37)
            length = bits.take(5) + 1
            presentation_bits = 0 if equal_intervals else length
    has_display_delay = bits.flag()
    for _ in range(bits.take(5) + 1):
        bits.take(12)
        if bits.take(5) > 7:  # noqa: PLR2004 - levels from 4.0 on have a tier
            bits.flag()
        if delay_bits and bits.flag():
            bits.take(2 * delay_bits + 1)
        if has_display_delay and bits.flag():
            bits.take(4)
    return presentation_bits


def _av1_tools(bits: Bits) -> tuple[int, int]:
    bits.take(4)
    if bits.flag():
        bits.take(2)
    screen_content = _CHOSEN_BY_FRAME if bits.flag() else bits.take(1)
    if not screen_content:
        return screen_content, _CHOSEN_BY_FRAME
    return screen_content, _CHOSEN_BY_FRAME if bits.flag() else bits.take(1)


def _has_own_size(bits: Bits, sequence: _Sequence) -> bool:
    """Whether this frame overrides the sequence's size."""
    if sequence.reduced or bits.flag():  # or an earlier frame is shown again
        return False
    kind = bits.take(2)
    is_shown = bits.flag()
    if is_shown:
        bits.take(sequence.presentation_bits)
    else:
        bits.flag()
    if kind == _AV1_SWITCH:
        return True
    if kind or not is_shown:
        bits.flag()
    bits.flag()
    screen_content = sequence.screen_content
    if screen_content == _CHOSEN_BY_FRAME:
        screen_content = bits.take(1)
    if screen_content and sequence.integer_mv == _CHOSEN_BY_FRAME:
        bits.flag()
    bits.take(sequence.frame_id_bits)
    return bits.flag()


# HEVC


def hevc_configuration(hvcc: bytes) -> tuple[int, list[CodedSize]]:
    """How many bytes a unit's length has in the data, and what the parameter sets beside it say."""
    fields = Fields(hvcc)
    fields.take(21)
    length_bytes = (fields.number(1) & 3) + 1
    sizes: list[CodedSize] = []
    for _ in range(fields.number(1)):
        fields.take(1)
        for _ in range(fields.number(2)):
            sizes += _hevc_unit(fields.take(fields.number(2)))
            if len(sizes) > _MOST_PARAMETERS:
                raise Malformed("has too many parameter sets")
    return length_bytes, sizes


def hevc_sizes(data: Pieces, length_bytes: int) -> Iterator[CodedSize]:
    at = 0
    while at < data.length:
        length = int.from_bytes(data.exactly(at, length_bytes), "big")
        at += length_bytes
        if length > data.length - at:
            raise Malformed("has picture data that does not fit into its place")
        yield from _hevc_unit(data.exactly(at, min(length, _ENOUGH)))
        at += length


def _hevc_unit(unit: bytes) -> Iterator[CodedSize]:
    """Nothing, unless it is a parameter set of the picture itself, not of a layer upon it."""
    head = int.from_bytes(unit[:2], "big")
    kind, layer = head >> 9 & 63, head >> 3 & 63
    if kind == _HEVC_PARAMETERS and layer == 0:
        yield _hevc_size(Bits(unit[2:].replace(b"\0\0\3", b"\0\0")))


def _hevc_size(bits: Bits) -> CodedSize:
    bits.take(4)
    _skip_hevc_profiles(bits, layers=bits.take(3))
    bits.exp_golomb()
    chroma = bits.exp_golomb()
    if chroma not in _HEVC_SUBSAMPLING:
        raise Malformed("uses a pixel format that HEVC does not have")
    if chroma == 3:  # noqa: PLR2004 - only then the planes may be apart
        bits.flag()
    width, height = bits.exp_golomb(), bits.exp_golomb()
    left = right = top = bottom = 0
    if bits.flag():
        left, right, top, bottom = (bits.exp_golomb() for _ in range(4))
    across, down = _HEVC_SUBSAMPLING[chroma]
    shown = width - across * (left + right), height - down * (top + bottom)
    if min(shown) <= 0:
        raise Malformed("crops its picture away")
    return CodedSize(shown, (width, height))


def _skip_hevc_profiles(bits: Bits, layers: int) -> None:
    bits.take(1 + 96)
    present = [(bits.flag(), bits.flag()) for _ in range(layers)]
    if layers:
        bits.take(2 * (8 - layers))
    for has_profile, has_level in present:
        bits.take(88 * has_profile + 8 * has_level)
