"""Told by their first bytes."""

import io

import pytest
from PIL import Image

from emulators.media import MP4, png
from safelight.generations.keep import cost_of
from safelight.generations.media import NotMedia, Recognized, recognize

WEBM = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08\x42\x82\x84webm"


def still(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF"])
def test_stills(kind: str) -> None:
    found = recognize(still(kind), complete=True)
    assert found == Recognized(f"image/{kind.lower()}", 40, 30)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (MP4, "video/mp4"),
        (b"\0\0\0\x14ftypmp42\0\0\0\0isom" + bytes(40), "video/mp4"),
        (b"\0\0\0\x20ftypM4V \0\0\0\0M4V mp42isom" + bytes(40), "video/mp4"),
        (WEBM + bytes(100), "video/webm"),
    ],
)
def test_clips(head: bytes, kind: str) -> None:
    assert recognize(head, complete=False).content_type == kind


@pytest.mark.parametrize(
    "head",
    [
        b"", b"\0", b"<!doctype html><img>", b"%PDF-1.7", b"GIF88a" + bytes(40), b"MZ" + bytes(99),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"PK\x03\x04" + bytes(40),
        b"\0\0\0\x14ftypheic\0\0\0\0mif1" + bytes(40), b"\0\0\0\x14ftypqt  \0\0\0\0qt  " + bytes(40),
        WEBM.replace(b"webm", b"matr") + bytes(40), b"\x1a\x45\xdf\xa3" + bytes(100),
        png()[:20], b"\xff\xd8\xff\xe0", b"II*\0" + bytes(40), b"RIFF\0\0\0\0AVI " + bytes(40),
    ],
)  # fmt: skip
def test_what_is_not_kept(head: bytes) -> None:
    with pytest.raises(NotMedia):
        recognize(head, complete=True)


@pytest.mark.parametrize(
    ("said", "cost"),
    [(0.0013, "0.0013"), (0, "0"), ("0.5", "0.5"), (None, None), (True, None), (-1, None),
     (float("nan"), None), (float("inf"), None), ("free", None), (10**9, None), ([], None)],
)  # fmt: skip
def test_costs(said: object, cost: str | None) -> None:
    found = cost_of({"cost": said})
    assert (None if found is None else str(found)) == cost
