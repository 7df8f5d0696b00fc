"""A child that keeps to the protocol and lies: what it says is a crash of the image, and the child is
not asked again."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from safelight.sandbox.facts import Garbled
from safelight.sandbox.inspecting import inspect
from safelight.sandbox.protocol import Bounds, FaultKind, Inspection, Rendition
from safelight.sandbox.sandbox import Sandbox, TaskDied
from submissions.pictures import photo, plain

BOUNDS = Bounds(10**8, 100, 10**9)
TRUE: dict[str, Any] = json.loads(json.dumps(inspect(photo(), BOUNDS.to_json()).facts))
VIEW = {"content_type": "image/jpeg", "width": 451, "height": 300, "square": 0, "size": 0}
TRACES = {"exif": False, "gps": False, "xmp": False, "camera": None}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    made = Sandbox(at_once=1, tasks="sandbox.liar")
    yield made
    await made.close()


def said(facts: Any, data: bytes = b"") -> bytes:
    """What the child is to answer."""
    return json.dumps(facts).encode() + b"\0" + data


async def pid(sandbox: Sandbox) -> int:
    return int((await sandbox.run("pid", b"")).facts["pid"])


# About a file


def test_the_truth_is_believed() -> None:
    found = Inspection.load(TRUE, len(photo()))
    assert found.to_json() == TRUE
    assert Inspection.load(found.to_json(), len(photo())) == found


LIES: list[dict[str, Any]] = [
    {"size": 7}, {"size": "7"}, {"end": None, "tail": {"kind": "unknown", "what": "a"}}, {"more": 1},
    {"content_type": "text/html"}, {"content_type": 5}, {"content_type": ["image/jpeg"]},
    {"content_type": None},
    {"width": -1}, {"width": 1.5}, {"width": True}, {"width": "9"}, {"width": 10**30},
    {"width": None}, {"height": float("nan")}, {"height": [1]},
    {"pixels": 1}, {"pixels": float("inf")}, {"frames": -1}, {"frames": {}}, {"decoded": 2},
    {"decoded": 10**400}, {"unpacked_bytes": None}, {"end": 10**9}, {"end": "x"},
    {"tail": "zip"}, {"tail": {"kind": "hidden"}}, {"tail": {"kind": "aliens", "what": "a"}},
    {"tail": {"kind": ["hidden"], "what": "a"}}, {"tail": {"kind": "hidden", "what": "a" * 9999}},
    {"tail": {"kind": "hidden", "what": "a\0"}}, {"tail": {"kind": "hidden", "what": 1}},
    {"traces": None}, {"traces": {}}, {"traces": {**TRACES, "gps": 1}}, {"traces": [1]},
    {"traces": {**TRACES, "camera": "\ud800"}}, {"traces": {**TRACES, "more": 1}},
    {"dhash": None}, {"dhash": "z" * 16}, {"dhash": "0" * 15}, {"dhash": 5}, {"phash": "0" * 17},
    {"dark_dhash": "0" * 16}, {"dhash": "٠" * 16},
    {"fault": "crash"}, {"fault": {}}, {"fault": {"kind": "aliens", "detail": ""}},
    {"fault": {"kind": "broken", "detail": "a\0b"}}, {"fault": {"kind": {}, "detail": ""}},
    {"fault": {"kind": "broken", "detail": None}},
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: str(lie)[:60])
def test_a_lie_is_not_believed(lie: dict[str, Any]) -> None:
    with pytest.raises(Garbled):
        Inspection.load({**TRUE, **lie}, len(photo()))


@pytest.mark.parametrize("name", TRUE)
def test_what_is_left_out_is_a_lie_too(name: str) -> None:
    with pytest.raises(Garbled):
        Inspection.load({key: TRUE[key] for key in TRUE if key != name}, len(photo()))


async def test_a_liar_has_crashed_and_is_not_asked_again(sandbox: Sandbox) -> None:
    for facts in (TRUE, {}, {**TRUE, "decoded": 10**400}, {**TRUE, "fault": {"kind": "aliens"}}):
        before, data = await pid(sandbox), said(facts)
        assert await sandbox.inspect(data, BOUNDS) == Inspection.died(FaultKind.CRASH, len(data))
        assert await pid(sandbox) != before


# About a rendition


def load(facts: Any, data: bytes = b"", **wanted: int) -> Rendition:
    return Rendition.load(json.loads(json.dumps(facts)), data, **wanted)


PHOTO = {**VIEW, "size": len(photo())}


def test_a_true_rendition_is_believed() -> None:
    found = load({"views": [PHOTO]}, photo(), max_side=451)
    assert (found.data, found.width, found.dark) == (photo(), 451, None)
    small = {**PHOTO, "square": 12}
    both = load({"views": [small, small]}, (b"s" * 12 + photo()) * 2, square=2)
    assert [view.square for view in both.views] == [b"s" * 12] * 2


@pytest.mark.parametrize("views", [None, 5, {"0": 1}, [], [None], [[]], ["view"], [PHOTO] * 3])
def test_views_that_are_none(views: Any) -> None:
    with pytest.raises(Garbled):
        load({"views": views}, photo() * 3)
    for facts in ({}, {"views": [PHOTO], "more": 1}):
        with pytest.raises(Garbled):
            load(facts, photo())


@pytest.mark.parametrize(
    "lie",
    [
        {"size": -1}, {"size": "9"}, {"size": 10**30}, {"size": 0}, {"size": len(photo()) - 1},
        {"size": len(photo()) - 3, "square": 3}, {"size": len(photo()) + 5, "square": -5},
        {"width": 300, "height": 451}, {"width": "451"}, {"width": 451.0}, {"width": -451},
        {"content_type": "text/html"}, {"content_type": "image/webp"}, {"content_type": []},
        {"content_type": None}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_lie_about_a_view(lie: dict[str, Any]) -> None:
    with pytest.raises(Garbled):
        load({"views": [{**PHOTO, **lie}]}, photo())


@pytest.mark.parametrize("data", [photo() + b"more", photo()[:-1], b""])
def test_more_or_less_than_was_said(data: bytes) -> None:
    with pytest.raises(Garbled):
        load({"views": [PHOTO]}, data)


@pytest.mark.parametrize("data", [b"", b"<html>", b"<html>" * 99_999, photo()[:20], photo()[9:]])
def test_bytes_that_begin_as_something_else(data: bytes) -> None:
    with pytest.raises(Garbled):
        load({"views": [{**VIEW, "size": len(data)}]}, data)


def test_only_what_is_drawn_here_is_published() -> None:
    """A child could name any type that is an image's."""
    view = {**VIEW, "content_type": "image/png", "width": 64, "height": 48, "size": len(plain())}
    with pytest.raises(Garbled):
        load({"views": [view]}, plain())


def test_it_is_as_large_as_was_asked_for() -> None:
    for wanted in ({"max_side": 450}, {"square": 16}):
        with pytest.raises(Garbled):
            load({"views": [PHOTO]}, photo(), **wanted)


async def test_one_who_draws_something_else_has_crashed(sandbox: Sandbox) -> None:
    true = said({"views": [PHOTO]}, photo())
    before = await pid(sandbox)
    assert (await sandbox.render(true)).data == photo()
    assert await pid(sandbox) == before
    with pytest.raises(TaskDied) as death:
        await sandbox.render(true, square=16)
    assert death.value.reason is FaultKind.CRASH
    assert await pid(sandbox) != before


# About its death


@pytest.mark.parametrize(
    "facts",
    [
        {"exceeded": "aliens"}, {"exceeded": ["memory"]}, {"exceeded": None}, {"exceeded": 5},
        {"exceeded": "crash", "words": "a\0"}, {"exceeded": "crash", "words": {}},
        {"exceeded": "crash", "words": "a" * 9999},
    ],
    ids=str,
)  # fmt: skip
async def test_an_invented_death_is_a_crash(sandbox: Sandbox, facts: dict[str, Any]) -> None:
    with pytest.raises(TaskDied) as death:
        await sandbox.render(said(facts))
    assert (death.value.reason, death.value.words) == (FaultKind.CRASH, "")
    found = await sandbox.inspect(said(facts), BOUNDS)
    assert found.fault
    assert found.fault.kind is FaultKind.CRASH
