"""AVIF and HEIC: the size that is claimed is the size that is coded, in honest files and others."""

import io
import struct
from dataclasses import replace

import pi_heif
import pytest
from PIL import Image

from headers.av1_bits import frame_with_own_size, sequence
from headers.heif_files import (
    HEIC,
    Coded,
    Part,
    av1,
    avif,
    box,
    ftyp,
    full_box,
    grid,
    heic,
    heif,
    hevc,
    hvcc,
    ispe,
    long_box,
    still,
    tiled,
    tkhd,
)
from safelight.headers.boxes import MOST_DESCRIPTION
from safelight.headers.probe import (
    HeaderTooLong,
    ImageFormat,
    NotAnImage,
    detect,
    read_file_header,
    read_header,
)

STILL = ftyp(b"avif", b"mif1", b"miaf")
FREE = box(b"free", bytes(99))
SMALL, LARGE = (64, 64), (640, 480)


def size_of(data: bytes) -> tuple[int, int]:
    header = read_file_header(lambda at, length: data[at : at + length])
    return header.width, header.height


def pixels_of(data: bytes) -> int:
    return read_header(data, complete=True).pixels


def refusal_of(data: bytes) -> str:
    with pytest.raises(NotAnImage) as caught:
        read_header(data, complete=True)
    return str(caught.value)


# Honest files


@pytest.mark.parametrize("tail", [1, 4, 7, 8, 100])
def test_what_stands_behind_the_last_box_is_nobodys(tail: int) -> None:
    assert size_of(avif(64, 64) + bytes(tail)) == (64, 64)


@pytest.mark.parametrize("size", [(64, 64), (70, 50), (16, 200)])
def test_the_primary_item_has_the_size(size: tuple[int, int]) -> None:
    assert size_of(avif(*size)) == size
    assert size_of(heic(*size)) == size
    assert pi_heif.open_heif(io.BytesIO(heic(*size))).size == size


def test_what_is_coded_beyond_the_edge_counts() -> None:
    """HEVC codes whole blocks and crops them."""
    assert size_of(heic(70, 50)) == (70, 50)
    assert pixels_of(heic(70, 50)) > 70 * 50


@pytest.mark.parametrize("primary", [1, 2])
def test_other_pictures_are_not_the_picture(primary: int) -> None:
    """A thumbnail, say; but whatever is largest may have to be decoded."""
    both = [still(av1(*SMALL), SMALL), still(av1(*LARGE), LARGE)]
    data = heif(*both, primary=primary)
    assert size_of(data) == (SMALL, LARGE)[primary - 1]
    assert pixels_of(data) == 640 * 480


def test_metadata_items_and_properties_are_left_alone() -> None:
    turned = heif(
        still(av1(*LARGE), LARGE, box(b"irot", b"\1"), box(b"clap", bytes(32))),
        Part(b"Exif", b"\0\0\0\0MM\0*"),
        Part(b"mime", b"<xmp/>"),
    )
    assert size_of(turned) == LARGE


def test_the_kind_is_that_of_the_picture_not_of_the_brand() -> None:
    coded = still(hevc(*SMALL), SMALL)
    mistaken = heif(coded, brands=(b"mif1", b"avif"))
    assert detect(mistaken) is ImageFormat.AVIF
    assert read_header(mistaken, complete=True).mime_type == "image/heic"
    generic = heif(still(av1(*SMALL), SMALL), brands=(b"mif1", b"miaf"))
    assert read_header(generic, complete=True).mime_type == "image/avif"


@pytest.mark.parametrize("brand", [b"heic", b"heix", b"mif1", b"msf1", b"hevc", b"heim"])
def test_brands_of_heic(brand: bytes) -> None:
    data = heif(still(hevc(*SMALL), SMALL), brands=(brand, b"mif1"))
    assert read_header(data, complete=True).extension == "heic"
    assert detect(data[:32]) is ImageFormat.HEIC


def test_a_long_list_of_brands_is_undecided_until_it_ends() -> None:
    head = ftyp(b"isom", *[b"mp41"] * 9)
    assert detect(head[:32]) is ImageFormat.HEIC
    assert detect(head) is None
    assert "a video, which is not accepted" in refusal_of(head)


def test_boxes_with_long_and_open_sizes() -> None:
    coded = still(av1(*SMALL), SMALL)
    assert size_of(heif(coded, after=long_box(b"free", bytes(9)))) == SMALL
    assert size_of(heif(coded, after=b"\0\0\0\0free...")) == SMALL


def test_a_description_behind_the_data() -> None:
    """Found by stepping over the data; the first bytes alone do not say."""
    data = _behind(70_000)
    assert size_of(data) == SMALL
    at = data.index(b"meta") - 4
    assert size_of(data[:at] + bytes(4) + data[at + 4 :]) == SMALL, "its size left open"
    with pytest.raises(HeaderTooLong):
        read_header(data[:65536], complete=False)


def _behind(padding: int) -> bytes:
    """`mdat` before `meta`, as cameras that write at once have it."""
    coded = av1(*SMALL)
    start = len(STILL) + 8
    usual = heif(still(coded, SMALL), brands=(b"avif", b"mif1", b"miaf"))
    at = usual.index(b"meta") - 4
    end = at + int.from_bytes(usual[at : at + 4], "big")
    place = struct.pack(">I", end + 8)
    meta = usual[at:end].replace(place, struct.pack(">I", start))
    return STILL + box(b"mdat", coded.data, bytes(padding)) + meta


# Lies


@pytest.mark.parametrize("make", [av1, hevc])
def test_a_small_claim_for_a_large_picture(make: type) -> None:
    lying = heif(still(make(*LARGE), SMALL))
    assert "says 64 × 64 pixels and holds a picture of 640 × 480" in refusal_of(lying)


def test_the_lie_is_one_that_a_decoder_believes() -> None:
    """It is not refused there: it decodes the large picture and makes it small."""
    with Image.open(io.BytesIO(heif(still(av1(*LARGE), SMALL)))) as image:
        assert image.size == SMALL


@pytest.mark.parametrize("make", [av1, hevc])
def test_a_large_claim_for_a_small_picture(make: type) -> None:
    assert "says 640 × 480" in refusal_of(heif(still(make(*SMALL), LARGE)))


def test_a_second_sequence_header_behind_an_honest_one() -> None:
    coded = av1(*SMALL)
    twice = replace(coded, data=coded.data + sequence(16_384, 16_384))
    assert "holds a picture of 16384 × 16384" in refusal_of(heif(still(twice, SMALL)))


def test_a_frame_that_gives_itself_a_size() -> None:
    """It may be as large as its fields: dav1d does not hold it against the sequence's."""
    data = sequence(64, 64, bits=16) + frame_with_own_size(65_536, 65_536, bits=16)
    coded = Coded(b"av01", data, box(b"av1C", b"\x81\0\0\0"))
    assert pixels_of(heif(still(coded, SMALL))) == 65_536**2


def test_parameters_within_the_data() -> None:
    """An honest set beside the data, and a lying one within it that takes its place."""
    small, large = hevc(*SMALL), hevc(*LARGE)
    at = large.configuration.index(b"\x42\x01\x01")
    length = int.from_bytes(large.configuration[at - 2 : at], "big")
    unit = large.configuration[at : at + length]
    lying = replace(small, data=struct.pack(">I", len(unit)) + unit + large.data)
    assert "holds a picture of 640 × 480" in refusal_of(heif(still(lying, SMALL), brands=HEIC))
    beside = replace(small, configuration=hvcc([unit]) + small.configuration)
    assert "640 × 480" in refusal_of(heif(still(beside, SMALL), brands=HEIC))


def test_a_picture_without_a_size_of_its_own() -> None:
    empty = Coded(b"av01", b"\x12\0", box(b"av1C", b"\x81\0\0\0"))
    assert "does not say its size" in refusal_of(heif(still(empty, SMALL)))
    bare = Part(b"av01", av1(*SMALL).data, (av1(*SMALL).configuration,))
    assert "no size for its primary picture" in refusal_of(heif(bare))
    two = Part(b"av01", av1(*SMALL).data, (ispe(*SMALL), ispe(*LARGE)))
    assert "more than one size" in refusal_of(heif(two))


# Sequences


def animated(claimed: tuple[int, int] = (50, 20), *, has_still: bool = True) -> bytes:
    """Pillow's, with another size in its track's header, or without its still picture."""
    frames = [Image.new("RGB", (50, 20), colour) for colour in ("red", "green", "blue")]
    file = io.BytesIO()
    frames[0].save(file, "AVIF", save_all=True, append_images=frames[1:], speed=10)
    data = file.getvalue()
    at = data.index(b"tkhd")
    at = data.index(struct.pack(">II", 50 << 16, 20 << 16), at)
    data = data[:at] + struct.pack(">II", *(n << 16 for n in claimed)) + data[at + 8 :]
    return data if has_still else data.replace(b"meta", b"free", 1)


def test_a_sequence_without_a_still_has_its_track() -> None:
    assert size_of(animated(has_still=False)) == (50, 20)
    assert read_header(animated(has_still=False), complete=True).mime_type == "image/avif"


@pytest.mark.parametrize("has_still", [True, False])
def test_every_frame_is_held_against_its_track(has_still: bool) -> None:
    lying = animated((9, 9), has_still=has_still)
    assert "says 9 × 9 pixels and holds a picture of 50 × 20" in refusal_of(lying)


def test_a_later_frame_that_is_larger() -> None:
    """The sequence header of the last frame is another one."""
    data = animated()
    at = data.index(b"stsz") + 8
    _, count, *lengths = struct.unpack(">5I", data[at : at + 20])
    first = int.from_bytes(data[data.index(b"stco") + 12 :][:4], "big")
    assert count == 3
    larger = sequence(16_384, 16_384)
    assert len(larger) <= lengths[2]
    last = first + lengths[0] + lengths[1]
    padded = larger + b"\x78" + bytes(lengths[2] - len(larger) - 1)
    changed = data[:last] + padded + data[last + lengths[2] :]
    assert "holds a picture of 16384 × 16384" in refusal_of(changed)


# Grids


@pytest.mark.parametrize("make", [av1, hevc])
def test_a_grid(make: type) -> None:
    data = tiled(make(*SMALL), 3, 2, (180, 100))
    assert size_of(data) == (180, 100)
    assert pixels_of(data) == 6 * 64 * 64, "tiles are decoded whole"


def test_a_grid_of_the_same_bytes_has_the_pixels_of_all() -> None:
    data = tiled(av1(*SMALL), 60, 60, (3840, 3840))
    assert pixels_of(data) == 3840 * 3840
    assert "too many" in refusal_of(tiled(av1(*SMALL), 64, 64, (4096, 4096)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tiled(av1(*SMALL), 3, 2, (180, 100), claimed=(64, 64)), "contradict"),
        (tiled(av1(*SMALL), 16, 16, (64, 64)), "too many or too few"),
        (tiled(av1(*SMALL), 2, 2, (200, 100)), "too many or too few"),
        (tiled(av1(*LARGE), 2, 2, (128, 128)), "holds a picture of 640 × 480"),
        (heif(grid(2, 2, (128, 128), (2,), (128, 128)), still(av1(*SMALL), SMALL)), "all of its"),
        (heif(grid(1, 1, (64, 64), (1,), (64, 64))), "all of its tiles"),
        (heif(grid(1, 2, (128, 64), (2, 3), (128, 64)), still(av1(*SMALL), SMALL),
              still(av1(*LARGE), LARGE)), "contradict"),
        (heif(Part(b"grid", b"\0\0\0", (ispe(9, 9),))), "too small"),
    ],
)  # fmt: skip
def test_grids_that_are_refused(data: bytes, words: str) -> None:
    assert words in refusal_of(data)


# Broken and endless ones


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (b"", "no still picture"),
        (box(b"mdat", bytes(50)), "no still picture"),
        (struct.pack(">I4sQ", 1, b"free", 2**64 - 1), "does not fit"),
        (struct.pack(">I4sQ", 1, b"free", 15), "does not fit"),
        (b"\0\0\0\x07free", "does not fit"),
        (b"\0\0\0\0free", "no still picture"),
        (b"\x7f\xff\xff\xffmdat", "no still picture"),
        (full_box(b"meta", b"\x7f\xff\xff\xffiprp"), "does not fit"),
        (full_box(b"meta", full_box(b"pitm"), box(b"iprp")), "too small"),
        (full_box(b"meta", full_box(b"pitm", b"\0\1")) * 2, "twice"),
        (full_box(b"meta", full_box(b"pitm", b"\0\1") * 2), "there can be one of"),
        (full_box(b"meta", full_box(b"pitm", b"\0\1")), "no size for its primary"),
        (full_box(b"meta", bytes(MOST_DESCRIPTION)), "more than 1 MiB"),
        (b"\0\0\0\0meta" + bytes(MOST_DESCRIPTION + 1), "more than 1 MiB"),
        (box(b"meta"), "too small"),
        (box(b"free") * 70_000, "more parts than"),
        (full_box(b"meta", box(b"free") * 70_000), "more parts than"),
        (full_box(b"meta", full_box(b"pitm", b"\0\1"), full_box(b"iinf", b"\0\0",
            *[full_box(b"infe", b"\0\1\0\0av01\0", version=2)] * 2)), "twice"),
        (full_box(b"meta", full_box(b"pitm", b"\0\1"), full_box(b"iloc", b"\x44\0\0\2",
            *[b"\0\1\0\0\0\0"] * 2)), "in two places"),
        (full_box(b"meta", full_box(b"pitm", b"\0\1"), full_box(b"iloc", b"\x44\0\0\1\0\1\0\0",
            struct.pack(">H", 17), bytes(17 * 8))), "more than 16 pieces"),
        (full_box(b"meta", b"\0\0\0\x08meta" * 9), "no still picture"),
    ],
)  # fmt: skip
def test_broken_files(rest: bytes, words: str) -> None:
    assert words in refusal_of(STILL + rest)


def many_tracks(count: int) -> bytes:
    """Each of as many frames as there may be: few bytes, and much to look at."""
    entry = box(b"av01", bytes(78))
    samples = [full_box(b"stsd", bytes(4), entry), full_box(b"stsz", struct.pack(">II", 1, 4096)),
               full_box(b"stsc", struct.pack(">4I", 1, 1, 4096, 1)),
               full_box(b"stco", struct.pack(">II", 1, 0))]  # fmt: skip
    media = box(b"mdia", box(b"minf", box(b"stbl", *samples)))
    return ftyp(b"avis", b"msf1") + box(b"moov", box(b"trak", tkhd(8, 8), media) * count)


def test_a_sequence_has_few_tracks() -> None:
    assert "more than 16 tracks" in refusal_of(many_tracks(17))
    assert "tracks" not in refusal_of(many_tracks(16))


def test_a_truncated_file_is_refused_until_the_picture_begins() -> None:
    data = heic()
    for length in range(32, data.index(b"mdat") + 4):
        assert refusal_of(data[:length])


def test_a_sequence_without_a_still_is_refused_in_words() -> None:
    data = ftyp(b"hevc", b"msf1") + box(b"moov", box(b"mvhd", bytes(100)))
    assert "HEIC file is not supported: it has no still picture" in refusal_of(data)


@pytest.mark.parametrize("kind", [b"iden", b"iovl", b"j2k1", b"Exif"])
def test_a_primary_picture_of_another_kind_is_not_damage(kind: bytes) -> None:
    shown = Part(kind, bytes(8), (ispe(*SMALL),), made_of=(2,))
    words = refusal_of(heif(shown, still(hevc(*SMALL), SMALL), brands=HEIC))
    assert words == (
        "The HEIC file is not supported: it keeps its picture in a form that is not opened here. "
        "Export it as JPEG and upload that."
    )


def test_a_picture_inside_another_is_not_damage() -> None:
    data = heif(still(av1(*SMALL), SMALL))
    place = struct.pack(">HH", 1, 0)  # of item 1: how it is stored, and from which file
    at = data.index(b"iloc") + 4
    moved = data[:at] + b"\1" + data[at + 1 :].replace(place, struct.pack(">HHH", 1, 2, 0), 1)
    assert "not supported: it keeps a picture inside another" in refusal_of(_grown(moved, 2))


def _grown(data: bytes, more: int) -> bytes:
    """`iloc`, and `meta` around it, hold that many bytes more than they say."""
    for kind in (b"iloc", b"meta"):
        at = data.index(kind) - 4
        size = int.from_bytes(data[at : at + 4], "big") + more
        data = data[:at] + struct.pack(">I", size) + data[at + 4 :]
    return data


@pytest.mark.parametrize("ftyp_size", [0, 1, 8, 15])
def test_file_types_without_room_for_a_brand(ftyp_size: int) -> None:
    head = struct.pack(">I", ftyp_size) + avif()[4:]
    assert detect(head) is None
    assert "not an accepted image" in refusal_of(head)
