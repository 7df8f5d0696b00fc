"""Files that say less than they hold: a child believes neither a container nor a decoder alone."""

import pytest

from classification.images import many_scans
from photos import containers
from photos.corpus import heic, saved, scene
from safelight.sandbox.inspecting import inspect
from safelight.sandbox.pictures import TooManyScans
from safelight.sandbox.protocol import FaultKind, Inspection
from safelight.sandbox.rendering import render

BOUNDS = {"max_pixels": 1_000_000, "max_frames": 100, "max_total_pixels": 10_000_000}


def seen(data: bytes, **bounds: int) -> Inspection:
    return Inspection.load(inspect(data, {**BOUNDS, **bounds}).facts, len(data))


@pytest.mark.parametrize("kind", ["avif", "heic"])
def test_a_picture_that_claims_to_be_smaller_is_not_decoded(kind: str) -> None:
    picture = scene((512, 512))
    data = heic(picture) if kind == "heic" else saved(picture, "AVIF")
    assert seen(data).decoded == 1
    found = seen(containers.claiming(data, 512, 64))
    assert (found.decoded, found.dhash) == (0, None)
    assert found.fault
    assert found.fault.kind is FaultKind.BROKEN


@pytest.mark.parametrize("kind", [b"av01", b"hvc1"])
def test_tiles_count_by_what_is_coded_in_them(kind: bytes) -> None:
    picture = scene((256, 256))
    tile = heic(picture) if kind == b"hvc1" else saved(picture, "AVIF")
    whole = containers.grid(kind, tile, 2, 2, 256)
    assert seen(whole).decoded == 1
    found = seen(whole, max_pixels=512 * 512 - 1)
    assert (found.decoded, found.fault, found.pixels) == (0, None, 512 * 512)
    lying = containers.claiming(whole, 256, 64)
    assert seen(lying).decoded == 0


def test_a_jpeg_that_is_drawn_over_and_over_is_not_decoded() -> None:
    often = many_scans(3000, 400)
    found = seen(often, max_pixels=10**8)
    assert found.fault
    assert (found.decoded, found.fault.kind) == (0, FaultKind.CPU)
    with pytest.raises(TooManyScans):
        render(often, {"max_side": None, "square": None})
