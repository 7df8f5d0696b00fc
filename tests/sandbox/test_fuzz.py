"""Files of every format with anything changed in them: what a child does with them ends in an answer
or in a fault, and what was found sound can be drawn anew. In real children, whose end is ours to see.

What was found this way stands in FOUND.
"""

import asyncio
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from photos.corpus import Photo, corpus
from safelight.sandbox.data_end import end_of
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import Bounds, FaultKind, Inspection
from safelight.sandbox.sandbox import Sandbox
from safelight.sandbox.tail import tail_of
from safelight.submissions.rules.well_formed import LONGEST_SIDE

KINDS = ("jpeg", "png", "webp", "gif", "avif", "heic")
BOUNDS = Bounds(max_pixels=2_000_000, max_frames=50, max_total_pixels=10_000_000)
LIMITS = SandboxLimits(memory_bytes=256 * 1024 * 1024, cpu_seconds=5, wall_seconds=60)
SAID = {FaultKind.BROKEN, FaultKind.NOT_AN_IMAGE, FaultKind.MEMORY}
unhurried = settings(max_examples=20, deadline=None, derandomize=True, database=None)

# Where (in thousandths of the file), how many bytes go, and what comes instead.
Edit = tuple[int, int, bytes]
WORDS = (
    b"\0" * 4,
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\0\0\0\1",
    b"\0\0\xff\xff",
    b"\xff\xd9",
    b"\xff",
)
edits = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.sampled_from([0, 0, 1, 2, 4, 100]),
        st.sampled_from(WORDS) | st.binary(max_size=4),
    ),
    min_size=1,
    max_size=5,
)


@cache
def photos(kind: str) -> list[Photo]:
    return [
        one for one in corpus() if one.content_type == f"image/{kind}" and len(one.data) < 20_000
    ]


def changed(data: bytes, changes: list[Edit]) -> bytes:
    for at, gone, new in changes:
        start = at * len(data) // 1000
        data = data[:start] + new + data[start + gone :]
    return data


class Children:
    """One loop for all of a module's tests, which are not asynchronous themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._sandbox = Sandbox(LIMITS)

    def inspect(self, data: bytes) -> Inspection:
        return self._loop.run(self._sandbox.inspect(data, BOUNDS))

    def render(self, data: bytes) -> None:
        self._loop.run(self._sandbox.render(data, square=32))

    def close(self) -> None:
        self._loop.run(self._sandbox.close())
        self._loop.close()


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.close()


def hold(children: Children, data: bytes) -> None:
    seen = children.inspect(data)
    assert seen.fault is None or seen.fault.kind in SAID, seen
    assert seen.end is None or seen.end <= len(data)
    if seen.fault is None and seen.decoded and max(seen.width, seen.height) <= LONGEST_SIDE:
        children.render(data)


# By name, since files are built anew: GIFs that became too wide to be drawn as WebP.
FOUND: list[tuple[str, list[Edit]]] = [
    ("gif 1 × 1", [(285, 0, b"\0\0\0\0"), (161, 1, b"\xff")]),
    ("gif 1 × 1", [(994, 0, b"\xff\xff\xff\xff"), (185, 2, b"\x06\xd1\xd1")]),
]


@pytest.mark.parametrize(("name", "changes"), FOUND)
def test_what_was_found(children: Children, name: str, changes: list[Edit]) -> None:
    [photo] = [one for one in corpus() if one.name == name]
    hold(children, changed(photo.data, changes))


@pytest.mark.parametrize("kind", KINDS)
def test_changed_files(children: Children, kind: str) -> None:
    @unhurried
    @given(st.sampled_from(photos(kind)), edits)
    def changing(photo: Photo, changes: list[Edit]) -> None:
        hold(children, changed(photo.data, changes))

    changing()


@unhurried
@given(st.sampled_from(KINDS), st.data())
def test_two_files_in_one(children: Children, kind: str, data: st.DataObject) -> None:
    """The beginning of one and the end of another, of its kind or not."""
    one = data.draw(st.sampled_from(photos(kind)))
    other = data.draw(st.sampled_from(photos(data.draw(st.sampled_from(KINDS)))))
    at, again = data.draw(st.integers(0, len(one.data))), data.draw(st.integers(0, len(other.data)))
    hold(children, one.data[:at] + other.data[again:])


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(KINDS), st.data(), edits, st.binary(max_size=40))
def test_the_end_is_found_or_not(
    kind: str, data: st.DataObject, changes: list[Edit], tail: bytes
) -> None:
    photo = data.draw(st.sampled_from(photos(kind)))
    whole = changed(photo.data, changes) + tail
    end = end_of(whole, photo.content_type)
    assert end is None or 0 < end <= len(whole)
    assert (tail_of(whole, end) is None) == (end is None or end == len(whole))


@example(b"<" * 1000)
@unhurried
@given(st.binary(max_size=2000))
def test_any_tail_is_something(tail: bytes) -> None:
    found = tail_of(b"x" + tail, 1)
    assert (found is None) == (tail == b"")
