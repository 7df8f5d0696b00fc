"""AVIF files put together box by box."""

import struct

import pytest

from safelight.ingest.probe import HeaderTooLong, ImageFormat, NotAnImage, detect, read_header

HUGE = 2**32 - 1


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


def pitm(item: int, version: int = 0) -> bytes:
    return full_box(b"pitm", struct.pack(">I" if version else ">H", item), version=version)


def ispe(width: int, height: int) -> bytes:
    return full_box(b"ispe", struct.pack(">II", width, height))


def ipma(entries: dict[int, list[int]], version: int = 0, flags: int = 0) -> bytes:
    ids, indices = ">I" if version else ">H", ">H" if flags else ">B"
    parts = [
        struct.pack(ids, item)
        + bytes([len(found)])
        + b"".join(struct.pack(indices, i) for i in found)
        for item, found in entries.items()
    ]
    return full_box(b"ipma", struct.pack(">I", len(parts)), *parts, version=version, flags=flags)


def meta(*children: bytes) -> bytes:
    return full_box(b"meta", *children)


def tkhd(width: int, height: int, version: int = 0) -> bytes:
    before = bytes((32 if version else 20) + 16 + 36)
    return full_box(b"tkhd", before, struct.pack(">II", width << 16, height << 16), version=version)


STILL = ftyp(b"avif", b"mif1", b"miaf")
SEQUENCE = ftyp(b"avis", b"msf1")
PICTURE = meta(pitm(1), box(b"iprp", box(b"ipco", ispe(640, 480)), ipma({1: [0x81]})))


def size_of(head: bytes) -> tuple[int, int]:
    header = read_header(head, complete=True)
    assert header.mime_type == "image/avif"
    return header.width, header.height


def refusal_of(head: bytes) -> str:
    with pytest.raises(NotAnImage) as caught:
        read_header(head, complete=True)
    return str(caught.value)


def test_the_primary_item_has_the_size() -> None:
    assert size_of(STILL + PICTURE + box(b"mdat", b"...")) == (640, 480)


@pytest.mark.parametrize("primary", [1, 2, 3])
def test_tiles_and_thumbnails_are_not_the_picture(primary: int) -> None:
    """A grid of tiles is larger than each of them, but may be smaller than all together."""
    sizes = {1: (512, 512), 2: (900, 700), 3: (2000, 2000)}
    properties = box(b"ipco", box(b"av1C", bytes(4)), *(ispe(*size) for size in sizes.values()))
    links = ipma({item: [0x81, item + 1] for item in sizes})
    assert size_of(STILL + meta(pitm(primary), box(b"iprp", properties, links))) == sizes[primary]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("flags", [0, 1])
def test_wide_and_narrow_associations(version: int, flags: int) -> None:
    filler = [box(b"free")] * (200 if flags else 100)
    index = len(filler) + 1
    essential = 0x8000 if flags else 0x80
    links = ipma({7: [1], 9: [1, 2, index | essential]}, version, flags)
    properties = box(b"iprp", box(b"ipco", *filler, ispe(30, 20)), links)
    assert size_of(STILL + meta(pitm(9, version), properties)) == (30, 20)


def test_associations_in_a_second_box_count() -> None:
    both = [ipma({2: [1]}), ipma({1: [2]}, version=1, flags=1)]
    properties = box(b"iprp", box(b"ipco", ispe(1, 1), ispe(30, 20)), *both)
    assert size_of(STILL + meta(pitm(1), properties)) == (30, 20)


def test_rotation_and_cropping_are_left_alone() -> None:
    properties = box(b"ipco", ispe(30, 20), box(b"irot", b"\1"), box(b"clap", bytes(32)))
    links = ipma({1: [1, 0x82, 0x83]})
    assert size_of(STILL + meta(pitm(1), box(b"iprp", properties, links))) == (30, 20)


def test_boxes_with_long_and_open_sizes() -> None:
    assert size_of(STILL + long_box(b"free", bytes(9)) + PICTURE) == (640, 480)
    open_ended = b"\0\0\0\0" + PICTURE[4:]
    assert size_of(STILL + open_ended) == (640, 480)


@pytest.mark.parametrize("version", [0, 1])
def test_a_sequence_without_a_still_has_its_track(version: int) -> None:
    sound = box(b"trak", tkhd(0, 0))
    moov = box(b"moov", box(b"mvhd", bytes(100)), sound, box(b"trak", tkhd(320, 240, version)))
    assert size_of(SEQUENCE + moov) == (320, 240)
    assert size_of(SEQUENCE + moov + b"\x7f\xff\xff\xffmdat...") == (320, 240)
    assert size_of(SEQUENCE + meta() + moov) == (320, 240)
    assert size_of(SEQUENCE + moov + PICTURE) == (640, 480), "the still comes first"
    assert "no size" in refusal_of(STILL + moov + b"\0\0\0\0mdat")


@pytest.mark.parametrize(
    "brands",
    [
        (b"avif",),
        (b"avis",),
        (b"mif1", b"avif"),
        (b"mif1", b"heic", b"miaf", b"MiHB", b"tmap", b"avif"),
    ],
)
def test_brands_that_are_avif(brands: tuple[bytes, ...]) -> None:
    head = ftyp(*brands) + PICTURE
    assert size_of(head) == (640, 480)
    assert detect(head[:32]) is ImageFormat.AVIF


@pytest.mark.parametrize(
    "brands", [(b"mif1",), (b"heic", b"mif1"), (b"mif1", b"heic"), (b"isom", b"av01")]
)
def test_brands_that_are_not(brands: tuple[bytes, ...]) -> None:
    assert detect(ftyp(*brands)) is None
    assert "not accepted" in refusal_of(ftyp(*brands) + PICTURE)


def test_a_long_list_of_brands_is_undecided_until_it_ends() -> None:
    head = ftyp(b"heic", *[b"mif1"] * 9) + PICTURE
    assert detect(head[:32]) is ImageFormat.AVIF
    assert detect(head) is None
    assert "HEIC is not accepted" in refusal_of(head)


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (b"", "cut short"),
        (box(b"mdat", bytes(50)), "cut short"),
        (PICTURE[:-1], "cut short"),
        (b"\x7f\xff\xff\xffmdat" + PICTURE, "cut short"),
        (struct.pack(">I4sQ", 1, b"free", 2**64 - 1), "does not fit"),
        (struct.pack(">I4sQ", 1, b"free", 2**40), "cut short"),
        (struct.pack(">I4sQ", 1, b"free", 15), "does not fit"),
        (b"\0\0\0\x07free", "does not fit"),
        (b"\0\0\0\0free", "no size"),
        (meta(b"\x7f\xff\xff\xffiprp") + bytes(99), "does not fit"),
        (meta(pitm(1)) + b"\0\0\0\0mdat", "no size"),
        (meta(pitm(2), box(b"iprp", box(b"ipco", ispe(9, 9)), ipma({1: [1]}))) + b"\0\0\0\0mdat", "no size"),
        (meta(pitm(1), box(b"iprp", box(b"ipco", ispe(9, 9)), ipma({1: [0, 2, 0x7F]}))) + b"\0\0\0\0mdat", "no size"),
        (meta(pitm(1), box(b"iprp", ipma({1: [1]}))) + b"\0\0\0\0mdat", "no size"),
        (meta(full_box(b"pitm"), box(b"iprp")) + bytes(99), "too small"),
        (meta(pitm(1), box(b"iprp", box(b"ipco", full_box(b"ispe")), ipma({1: [1]}))) + bytes(9), "too small"),
        (meta(pitm(1), box(b"iprp", box(b"ipco"), full_box(b"ipma", b"\xff\xff\xff\xff"))), "too small"),
        (meta(pitm(1), box(b"iprp", box(b"ipco", ispe(0, 9)), ipma({1: [1]}))), "zero"),
    ],
)  # fmt: skip
def test_broken_files(rest: bytes, words: str) -> None:
    assert words in refusal_of(STILL + rest)


def test_the_largest_size_is_told_as_it_is() -> None:
    properties = box(b"iprp", box(b"ipco", ispe(HUGE, HUGE)), ipma({1: [1]}))
    assert size_of(STILL + meta(pitm(1), properties)) == (HUGE, HUGE)


def test_a_description_behind_the_data_is_out_of_reach() -> None:
    head = (STILL + box(b"mdat", bytes(70_000)) + PICTURE)[:65536]
    with pytest.raises(HeaderTooLong):
        read_header(head, complete=False)


@pytest.mark.parametrize("ftyp_size", [0, 1, 8, 15])
def test_file_types_without_room_for_a_brand(ftyp_size: int) -> None:
    head = struct.pack(">I", ftyp_size) + STILL[4:] + PICTURE
    assert detect(head) is None
    assert "not an accepted image" in refusal_of(head)
