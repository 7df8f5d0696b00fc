"""Bytes nobody would write: every reader answers with a size or a refusal, after bounded work."""

import itertools
import os
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headers.heif_files import avif, box, ftyp, full_box, open_ended
from headers.test_probe import KINDS, samples
from safelight.headers.probe import ImageHeader, NotAnImage, read_file_header, read_header
from safelight.headers.reading import MOST_READS, Fields

unhurried = settings(deadline=None)
WHOLE = sorted(samples().values(), key=len)
MOST_READ = 3 * 1024 * 1024  # of a file, however large: the header's first look, two descriptions


@contextmanager
def stored(data: bytes) -> Iterator[int]:
    """A real file's descriptor: unlike a slice, it knows positions that are none."""
    file = os.memfd_create("fuzzed")
    try:
        os.write(file, data)
        yield file
    finally:
        os.close(file)


def judge(data: bytes) -> ImageHeader | None:
    """As an upload is: nothing but a header or a refusal, and little of the file is looked at."""
    fetched: list[int] = []

    def read_at(at: int, length: int) -> bytes:
        fetched.append(length)
        return os.pread(file, length, at)

    found, words = None, "."
    with stored(data) as file:
        try:
            found = read_file_header(read_at)
        except NotAnImage as refused:
            words = str(refused)
    assert words.endswith(".")
    assert len(words) < 200
    assert len(fetched) <= MOST_READS
    assert max(fetched) <= MOST_READ
    if found:
        assert (found.mime_type, found.extension) in KINDS.values()
        assert min(found.width, found.height) > 0
        assert found.pixels >= found.width * found.height
    return found


def same_from_memory(data: bytes, found: ImageHeader | None) -> None:
    try:
        assert read_header(data, complete=True) == found
    except NotAnImage:
        assert found is None


@unhurried
@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=5), st.integers(0, 9)), max_size=6),
)
@example(open_ended(avif()), [])
@example(avif() + bytes(16), [])
def test_edited_files(whole: bytes, edits: list[tuple[float, bytes, int]]) -> None:
    data = whole
    for where, added, removed in edits:
        at = int(where * len(data))
        data = data[:at] + added + data[at + removed :]
    same_from_memory(data, judge(data))


@pytest.mark.parametrize("whole", WHOLE, ids=len)
def test_every_byte_changed_in_some_way(whole: bytes) -> None:
    """One after the other in the first part of the file, where the headers are."""
    chance = random.Random(7)
    for at in range(min(len(whole), 600)):
        value = chance.choice((0, 0xFF, whole[at] ^ 1 << chance.randrange(8)))
        judge(whole[:at] + bytes([value]) + whole[at + 1 :])


# Files grown from a grammar: right in form, wild in their numbers

NUMBERS = st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16, 255, 256, 65535, 2**31, 2**32 - 1])
SHORT = st.binary(max_size=24)
SIZED = [b"ispe", b"pitm", b"iloc", b"infe", b"ipma", b"hvcC", b"av1C", b"tkhd", b"stsz", b"stsc",
         b"stco", b"co64", b"idat", b"dimg", b"free"]  # fmt: skip
NESTED = [b"meta", b"iprp", b"ipco", b"iinf", b"iref", b"moov", b"trak", b"mdia", b"minf", b"stbl",
          b"stsd", b"av01"]  # fmt: skip


def claimed(content: bytes, kind: bytes, length: int) -> bytes:
    """A box whose length field says something else."""
    return struct.pack(">I", length) + kind + content


LEAVES = st.one_of(
    st.builds(lambda kind, ns: box(kind, *(struct.pack(">I", n) for n in ns)),
              st.sampled_from(SIZED), st.lists(NUMBERS, max_size=6)),
    st.builds(lambda kind, body, v, f: full_box(kind, body, version=v, flags=f),
              st.sampled_from(SIZED), SHORT, st.integers(0, 3), st.integers(0, 3)),
    st.builds(claimed, SHORT, st.sampled_from(SIZED + NESTED), NUMBERS),
)  # fmt: skip


def nest(children: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    several = st.lists(children, max_size=5).map(b"".join)
    plain = st.builds(box, st.sampled_from(NESTED), several)
    full = st.builds(full_box, st.sampled_from(NESTED), several)
    return st.one_of(plain, full)


BOXES = st.recursive(LEAVES, nest, max_leaves=10)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([b"avif", b"avis", b"heic", b"mif1"]), st.lists(BOXES, max_size=4))
@example(b"avif", [full_box(b"meta", full_box(b"pitm", b"\0\1"))])
@example(b"avis", [box(b"moov", box(b"trak", full_box(b"tkhd", bytes(80)), box(b"mdia")))])
@example(b"avif", [struct.pack(">I4sQ", 1, b"free", 2**63 - 1)])
@example(b"avif", [struct.pack(">I4sQ", 1, b"free", 2**63 - 60)])
@example(
    b"heic",
    [
        full_box(
            b"meta",
            full_box(b"pitm", b"\0\1"),
            full_box(b"iinf", b"\0\1", full_box(b"infe", b"\0\1\0\0av01\0", version=2)),
            full_box(b"iloc", b"\x88\0\0\1\0\1\0\0\0\1", b"\xff" * 8, bytes(7), b"\x09"),
        )
    ],
)
def test_boxes(brand: bytes, boxes: list[bytes]) -> None:
    judge(ftyp(brand, b"mif1") + b"".join(boxes))


SEGMENTS = st.one_of(
    st.builds(lambda m, body: bytes([0xFF, m]) + struct.pack(">H", len(body) + 2) + body,
              st.integers(0xC0, 0xFE), SHORT),
    st.builds(lambda m, length: bytes([0xFF, m]) + struct.pack(">H", length),
              st.integers(1, 0xFE), st.integers(0, 65535)),
    SHORT,
)  # fmt: skip


@unhurried
@given(st.lists(SEGMENTS, max_size=20))
def test_segments(segments: list[bytes]) -> None:
    judge(b"\xff\xd8" + b"".join(segments))


@unhurried
@given(
    st.lists(st.sampled_from([b"!\xfe\3abc\0", b"!\xf9\4", b",", b"\0", b";"]) | SHORT, max_size=12)
)
def test_blocks(blocks: list[bytes]) -> None:
    judge(b"GIF89a" + bytes(7) + b"".join(blocks))


# What costs the most for what it says


def many_items(count: int) -> bytes:
    """Items that share one property each of them has to be held against."""
    names = [
        full_box(b"infe", struct.pack(">HH", n, 0), b"hvc1\0", version=2) for n in range(count)
    ]
    sets = b"".join(struct.pack(">BHH", 33, 1, 4) + b"\x42\1\1\0" for _ in range(255))
    shared = box(b"hvcC", bytes(21), b"\3", bytes([255]), sets)
    links = b"".join(struct.pack(">HBB", n, 1, 1) for n in range(count))
    described = [
        full_box(b"pitm", b"\0\0"),
        full_box(b"iinf", struct.pack(">H", count), *names),
        box(b"iprp", box(b"ipco", shared), full_box(b"ipma", struct.pack(">I", count), links)),
    ]
    return ftyp(b"heic", b"mif1") + full_box(b"meta", *described)


def long_units(kind: bytes) -> bytes:
    """Padding units of AV1 without end."""
    data = b"\x7a\0" * 200_000
    item = full_box(b"infe", b"\0\1\0\0", kind, b"\0", version=2)
    place = struct.pack(">HHHII", 1, 0, 1, 40, len(data))
    described = [full_box(b"pitm", b"\0\1"), full_box(b"iinf", b"\0\1", item),
                 full_box(b"iloc", b"\x44\0\0\1", place)]  # fmt: skip
    return ftyp(b"avif", b"mif1") + box(b"mdat", bytes(8), data) + full_box(b"meta", *described)


def places_of_nothing(count: int) -> bytes:
    """Numbers without a width, so that a megabyte holds millions of them."""
    places = b"".join(struct.pack(">IHHH", number, 0, 0, 16) for number in range(count))
    described = [full_box(b"pitm", b"\0\1"),
                 full_box(b"iloc", b"\0\0", struct.pack(">I", count), places, version=2)]  # fmt: skip
    return ftyp(b"avif", b"mif1") + full_box(b"meta", *described)


def many_associations(count: int) -> bytes:
    links = struct.pack(">HB", 1, 255) + bytes(255)
    described = [full_box(b"pitm", b"\0\1"),
                 box(b"iprp", full_box(b"ipma", struct.pack(">I", count), links * count))]  # fmt: skip
    return ftyp(b"avif", b"mif1") + full_box(b"meta", *described)


@pytest.mark.parametrize(
    "make",
    [
        lambda: places_of_nothing(100_000),
        lambda: many_associations(4000),
    ],
    ids=["places", "associations"],
)
def test_a_megabyte_is_not_a_million_numbers(
    make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them costs a call: seconds of the server's time for a megabyte of a client's."""
    taken, take = itertools.count(), Fields.take

    def counted(self: Fields, length: int) -> bytes:
        next(taken)
        return take(self, length)

    monkeypatch.setattr(Fields, "take", counted)
    assert judge(make()) is None
    assert next(taken) < 150_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: many_items(4000),
        lambda: long_units(b"av01"),
        lambda: b"\xff\xd8" + b"\xff" * 2_000_000,
        lambda: b"\xff\xd8" + b"\xff\0" * 1_000_000,
        lambda: b"GIF89a" + bytes(7) + b"!\xfe" + b"\1a" * 1_000_000,
        lambda: ftyp(b"heic") + box(b"free") * 200_000,
        lambda: ftyp(b"heic") + full_box(b"meta", (box(b"meta") * 10_000) * 3),
    ],
    ids=["items", "units", "fill", "stuffing", "comments", "boxes", "described"],
)
def test_work_has_an_end(make: Callable[[], bytes]) -> None:
    assert judge(make()) is None
