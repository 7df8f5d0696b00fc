"""What containers say of themselves, and what of that is believed."""

import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.media import MP4, box, mp4
from safelight.generations.clips import Clip, ClipCut, NotAClip, clip_of

TYPES = {"mp4": "video/mp4", "webm": "video/webm"}


def encoded(kind: str, path: Path | None = None, **options: str) -> bytes:
    """By an encoder that others use too: 64 × 48, half a second."""
    buffer = io.BytesIO()
    codec = {"mp4": "mpeg4", "webm": "libvpx-vp9"}[kind]
    with av.open(str(path) if path else buffer, "w", format=kind, options=options) as container:
        stream = container.add_stream(codec, rate=10)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for shade in range(5):
            pixels = np.full((48, 64, 3), 40 * shade, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path.read_bytes() if path else buffer.getvalue()


def look(content: bytes, kind: str = "mp4") -> Clip:
    return clip_of(io.BytesIO(content), len(content), TYPES[kind])


def cut_somewhere(content: bytes) -> list[bytes]:
    return [content[: len(content) * tenth // 10] for tenth in range(1, 10)] + [content[:-1]]


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_real_ones(kind: str) -> None:
    whole = encoded(kind)
    found = look(whole, kind)
    assert (found.width, found.height) == (64, 48)
    assert found.seconds == pytest.approx(0.5, abs=0.11)  # WebM counts to the last frame's start
    for cut in cut_somewhere(whole):
        with pytest.raises(ClipCut):
            look(cut, kind)


def test_one_whose_index_comes_first(tmp_path: Path) -> None:
    whole = encoded("mp4", tmp_path / "clip", movflags="faststart")
    assert look(whole).width == 64
    for cut in cut_somewhere(whole):
        with pytest.raises(ClipCut):
            look(cut)


def test_one_in_fragments_says_no_length() -> None:
    whole = encoded("mp4", movflags="frag_keyframe+empty_moov")
    assert look(whole) == Clip(64, 48, None)


def test_a_live_one_says_no_length() -> None:
    assert look(encoded("webm", live="1"), "webm") == Clip(64, 48, None)


def test_the_emulators_own() -> None:
    assert look(MP4) == Clip(640, 360, 2.5)


def in_movie(*parts: bytes) -> bytes:
    return box(b"ftyp", b"isom") + box(b"moov", *parts) + box(b"mdat")


@pytest.mark.parametrize(
    "content",
    [
        in_movie(),
        in_movie(box(b"trak")),
        in_movie(box(b"trak", box(b"tkhd", b"\0"), box(b"mdia", box(b"hdlr", bytes(8) + b"vide")))),
        in_movie(box(b"mvhd", b"\1")),
        in_movie(struct.pack("!I4s", 3, b"trak")),
        mp4(width=0),
        mp4(width=65_535, height=0),
        box(b"ftyp", b"isom") + box(b"free") * 20_001 + box(b"moov"),
    ],
)
def test_nonsense(content: bytes) -> None:
    with pytest.raises(NotAClip):
        look(content)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["mp4", "webm"]),
    st.lists(st.tuples(st.integers(0, 900), st.binary(min_size=1, max_size=9)), max_size=6),
)
def test_no_bytes_are_too_strange(kind: str, damage: list[tuple[int, bytes]]) -> None:
    content = bytearray(_WHOLE[kind])
    for at, piece in damage:
        content[at : at + len(piece)] = piece
    try:
        found = look(bytes(content), kind)
    except (ClipCut, NotAClip):
        return
    assert 0 < found.width <= 65_535
    assert 0 < found.height <= 65_535


_WHOLE = {kind: encoded(kind) for kind in TYPES}
