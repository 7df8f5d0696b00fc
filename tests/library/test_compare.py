"""Bucket, index and library, name by name: which are suspects, and how far a page reaches."""

from dataclasses import replace

import pytest

from safelight.library.reconcile.compare import Entered, Indexed, Sides, cut, suspects
from safelight.objects.store import Listed

YOUNG = (5, 9)
LISTED = Listed("org/x", 1, "e", 1)
INDEXED = Indexed("e", 1, "m", None, 1)
ENTERED = Entered("e", "m", 1, idle=False)
BUILT_IN, OWN, TELLING = Sides


@pytest.mark.parametrize(
    ("listed", "indexed", "entered", "wrong_for"),
    [
        (LISTED, INDEXED, ENTERED, set()),
        (None, INDEXED, ENTERED, {OWN, TELLING}),
        (LISTED, None, ENTERED, {BUILT_IN, OWN}),
        (LISTED, INDEXED, None, {BUILT_IN, OWN, TELLING}),
        (LISTED, None, None, {OWN, TELLING}),
        (None, INDEXED, None, {BUILT_IN, OWN}),
        (None, None, ENTERED, {BUILT_IN, OWN, TELLING}),
        (replace(LISTED, etag="f"), INDEXED, ENTERED, {OWN, TELLING}),
        (replace(LISTED, size=2), INDEXED, ENTERED, {OWN}),
        (LISTED, replace(INDEXED, marker="n"), ENTERED, {BUILT_IN, OWN}),
        (LISTED, replace(INDEXED, marker=None), ENTERED, set()),
        (LISTED, replace(INDEXED, marker=None), replace(ENTERED, etag="f"), {*Sides}),
        (LISTED, INDEXED, replace(ENTERED, idle=True), {*Sides}),
    ],
)
def test_who_disagrees(
    listed: Listed | None, indexed: Indexed | None, entered: Entered | None, wrong_for: set[Sides]
) -> None:
    for sides in Sides:
        seen = listed if sides is not BUILT_IN else None
        stretch = cut(
            {"x": seen} if seen else {},
            {"x": indexed} if indexed and sides is not TELLING else {},
            {"x": entered} if entered else {},
            [],
        )
        assert suspects(stretch, sides, YOUNG) == (["x"] if sides in wrong_for else [], 0), sides


def test_what_is_young_is_counted_and_nobodys_suspect() -> None:
    for time, wrong in ((4, ["x"]), (5, []), (9, []), (10, ["x"])):
        stretch = cut({"x": replace(LISTED, event_time=time)}, {}, {}, [])
        assert suspects(stretch, OWN, YOUNG) == (wrong, 1 - len(wrong))
        stretch = cut({}, {}, {"x": replace(ENTERED, event_time=time)}, [])
        assert suspects(stretch, BUILT_IN, YOUNG) == (wrong, 1 - len(wrong))


def test_as_far_as_all_pages_reach() -> None:
    """In the order of bytes, where ä comes after z, and a smiley last."""
    listed = dict.fromkeys(["A", "a", "z", "ä"], LISTED)
    entered = dict.fromkeys(["A", "a", "ä", "😀"], ENTERED)
    stretch = cut(listed, {}, entered, ["ä", "😀"])
    assert (stretch.until, stretch.names) == ("ä", ["A", "a", "z", "ä"])
    assert stretch.reaches("z")
    assert not stretch.reaches("😀")
    assert cut(listed, {}, entered, []).names[-1] == "😀"
