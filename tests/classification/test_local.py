"""What a classifier makes of its children's ends and words; without a real network."""

import asyncio
import hashlib
import json
import os
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from structlog.testing import capture_logs

from safelight.classification.base import (
    ChildDied,
    Drawing,
    ModelAway,
    ModelError,
    Prediction,
    Undecodable,
)
from safelight.classification.local import LocalClassifier, read
from safelight.errors import ConfigurationError
from safelight.sandbox.children import Kit
from safelight.sandbox.facts import Garbled
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import Answer
from safelight.sandbox.sandbox import Sandbox
from safelight.testing.waiting import until
from sandbox.shared import is_locked, living

KIT = Kit.of("classification.odd_network", at_once=2)
EMPTY = hashlib.sha256(b"").hexdigest()
ANSWER = Prediction("DAISY", 0.5, Drawing(color="#ff8800", digest=EMPTY), (("DAISY", 0.5),))
TRUE = {"labels": [["DAISY", 0.5]], "embedding": 0, "color": "#ff8800", "digest": EMPTY}
LIMITS = SandboxLimits(memory_bytes=256 * 1024 * 1024, cpu_seconds=1)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    made = Sandbox(LIMITS)
    yield made
    await made.close()


@pytest.fixture
def classifier(sandbox: Sandbox) -> LocalClassifier:
    return LocalClassifier("test", "test", sandbox, hash_model=lambda: "ff", kit=lambda: KIT)


async def test_sixteen_calls_are_two_childrens_work(classifier: LocalClassifier) -> None:
    found = await asyncio.gather(*(classifier.classify(b"") for _ in range(16)))
    assert found == [ANSWER] * 16
    assert len(living(KIT.module)) <= 2


async def test_a_decoders_own_words_are_for_the_log(classifier: LocalClassifier) -> None:
    with capture_logs() as lines, pytest.raises(Undecodable) as refusal:
        await classifier.classify(b"undecodable")
    assert refusal.value.message == "no picture"
    [line] = [line for line in lines if line["event"] == "an image cannot be decoded"]
    assert (line["reason"], line["decoder"]) == ("no picture", "image file is truncated")


async def test_opening_again_costs_nothing(sandbox: Sandbox) -> None:
    hashed: list[int] = []

    def hash_model() -> str:
        hashed.append(1)
        return "ff"

    classifier = LocalClassifier("test", "test", sandbox, hash_model=hash_model, kit=lambda: KIT)
    await classifier.open()
    await classifier.open()
    assert hashed == [1]
    assert classifier.model_hash == "ff"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"crash", ChildDied),
        (b"eat", ChildDied),
        (b"burn", ChildDied),
        (b"bug", ChildDied),
        (b"model", ModelError),
        (b"undecodable", Undecodable),
        (b"killed", ModelAway),
    ],
)
async def test_how_an_image_can_end(
    classifier: LocalClassifier, data: bytes, error: type[Exception]
) -> None:
    """And the next one is none the worse for it."""
    with pytest.raises(error) as raised:
        await classifier.classify(data)
    assert type(raised.value) is error
    assert await classifier.classify(b"") == ANSWER


async def test_a_machine_that_is_too_slow_is_not_the_images_fault(sandbox: Sandbox) -> None:
    """An image that takes too much is ended by the limit of processor time, and is `ChildDied`. When
    the clock on the wall is first, its child was not given that time: the image waits."""
    kit = Kit.of("classification.odd_network", limits=SandboxLimits(wall_seconds=0.5))
    classifier = LocalClassifier("test", "test", sandbox, hash_model=lambda: "ff", kit=lambda: kit)
    with pytest.raises(ModelAway, match="too slow"):
        await classifier.classify(b"burn")


async def test_a_file_that_cannot_be_read_is_not_the_images_fault(
    classifier: LocalClassifier, tmp_path: Path
) -> None:
    (tmp_path / "something").touch()
    unreadable = os.open(tmp_path, os.O_RDONLY)  # reading a directory fails
    try:
        with pytest.raises(ModelAway, match="could not be read"):
            await classifier.classify(unreadable)
    finally:
        os.close(unreadable)


async def test_a_child_that_dies_blames_no_other_image(classifier: LocalClassifier) -> None:
    work = [b"", b"crash", b"", b"", b"crash", b"", b"", b""]
    found = await asyncio.gather(*map(classifier.classify, work), return_exceptions=True)
    assert [isinstance(one, ChildDied) for one in found] == [one == b"crash" for one in work]


def _starts(child: psutil.Process) -> bool:
    return not is_locked(child.pid)


def _is_at_it(child: psutil.Process) -> bool:
    return child.status() == psutil.STATUS_STOPPED


def _waits(child: psutil.Process) -> bool:
    return is_locked(child.pid) and not _is_at_it(child)


async def _shot(wanted: Callable[[psutil.Process], bool]) -> int:
    def find() -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):
            for child in filter(wanted, living(KIT.module)):
                child.kill()
                return child
        return None

    shot: psutil.Process = await until(find)
    await until(lambda: _is_gone(shot))
    return shot.pid


def _is_gone(child: psutil.Process) -> bool:
    """With its connection, which it loses after its memory and before it is buried."""
    try:
        return child.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_children_killed_at_any_moment_cost_no_image(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """While it starts, in the middle of an image, and while it waits for the next one."""
    hold, killed = tmp_path / "hold", []
    kit = Kit.of("classification.odd_network", at_once=2, held_by=str(hold))
    classifier = LocalClassifier("test", "test", sandbox, hash_model=lambda: "ff", kit=lambda: kit)
    with (tmp_path / "image").open("w+b", buffering=0) as image:
        for _ in range(3):
            hold.touch()
            os.pwrite(image.fileno(), b"stop", 0)
            answer = asyncio.create_task(classifier.classify(image.fileno()))
            killed.append(await _shot(_starts))
            hold.unlink()
            await until(lambda: any(map(_is_at_it, living(KIT.module))))
            os.pwrite(image.fileno(), b"fine", 0)  # the next child is not to stop at it again
            killed.append(await _shot(_is_at_it))
            assert (await answer).label == ANSWER.label
            killed.append(await _shot(_waits))
    assert len(set(killed)) == 9


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"labels": [["DAISY", 0.5]], "embedding": 0},
        {**TRUE, "labels": []},
        {**TRUE, "labels": [["<b>NOT A CLASS</b>", 0.5]]},
        {**TRUE, "labels": [["DAISY", 7]]},
        {**TRUE, "labels": [["DAISY", float("nan")]]},
        {**TRUE, "labels": "DAISY"},
        {**TRUE, "labels": [["DAISY", 0.5, 3]]},
        {**TRUE, "labels": [["DAISY", 0.5]] * 6},
        {**TRUE, "labels": [[["DAISY"], 0.5]]},
        {**TRUE, "labels": [["DAISY", True]]},
        {**TRUE, "embedding": "x"},
        {**TRUE, "embedding": 1},
        {**TRUE, "color": "red"},
        {**TRUE, "color": "#FF8800"},
        {**TRUE, "color": "#ff8800;"},
        {**TRUE, "color": None},
        {**TRUE, "digest": EMPTY[1:]},
        {**TRUE, "digest": EMPTY.upper()},
        {**TRUE, "digest": None},
        {**TRUE, "more": 1},
        {"undecodable": ["no picture"], "decoder": "", "digest": EMPTY},
        {"undecodable": "no picture", "digest": EMPTY},
        {"undecodable": "no picture", "decoder": ""},
        {"undecodable": "no picture", "decoder": "", "digest": "none"},
        {"undecodable": "x" * 3000, "decoder": "", "digest": EMPTY},
        {"undecodable": "no picture", "decoder": "\0", "digest": EMPTY},
        {"failed": 7},
        {"failed": "x" * 3000},
        {"failed": "\ud800"},
    ],
)
async def test_a_child_in_the_hands_of_an_image_is_not_believed(
    sandbox: Sandbox, facts: dict[str, Any]
) -> None:
    """Nor asked again."""
    kit = replace(KIT, at_once=1)
    classifier = LocalClassifier("test", "test", sandbox, hash_model=lambda: "ff", kit=lambda: kit)
    assert await classifier.classify(b"") == ANSWER
    [liar] = living(KIT.module)
    with pytest.raises(ChildDied):
        await classifier.classify(json.dumps({**facts}).encode())
    assert await classifier.classify(b"") == ANSWER
    assert liar not in living(KIT.module)


def webp(data: bytes = bytes(14), kind: bytes = b"VP8 ", more: int = 0) -> bytes:
    body = b"WEBP" + kind + len(data).to_bytes(4, "little") + data
    return b"RIFF" + (len(body) + more).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    ("data", "fine"),
    [
        (webp(), True),
        (webp(kind=b"VP8X"), True),
        (webp(b"\x10" + bytes(13), b"VP8X"), True),  # see-through
        (b"", False),
        (b"\xff\xd8\xff" + bytes(50), False),
        (webp(kind=b"EXIF"), False),
        (webp(more=1), False),
        (webp() + b"<script>", False),
        (webp(bytes(300_000)), False),
        *((webp(bytes([flag]) + bytes(13), b"VP8X"), False) for flag in (0x20, 0x08, 0x04, 0x02)),
    ],
)
def test_a_thumbnail_is_a_small_webp_without_notes(data: bytes, fine: bool) -> None:
    answer = Answer(TRUE, data)
    if fine:
        assert read(answer, thumbnail=True, dimensions=0).drawing.thumbnail == data
        return
    with pytest.raises(Garbled):
        read(answer, thumbnail=True, dimensions=0)


def test_what_nobody_asked_for_is_not_taken() -> None:
    with pytest.raises(Garbled):
        read(Answer(TRUE, webp()), thumbnail=False, dimensions=0)
    with pytest.raises(Garbled):
        read(Answer({**TRUE, "embedding": 4}, bytes(4)), thumbnail=False, dimensions=0)


@pytest.mark.parametrize(
    ("values", "fine"),
    [
        ((0.5, -0.5), True),
        ((65504.0, 6e-8), True),
        ((0.5,), False),
        ((0.5, 0.5, 0.5), False),
        ((0.5, float("nan")), False),
        ((float("inf"), 0.5), False),
        ((0.5, float("-inf")), False),
    ],
)
def test_an_embedding_is_so_many_numbers(values: tuple[float, ...], fine: bool) -> None:
    vector = struct.pack(f"<{len(values)}e", *values)
    answer = Answer({**TRUE, "embedding": len(vector)}, vector)
    if fine:
        assert read(answer, thumbnail=False, dimensions=2).drawing.embedding == vector
        return
    with pytest.raises(Garbled):
        read(answer, thumbnail=False, dimensions=2)


async def test_a_child_that_refuses_an_image_goes_on(classifier: LocalClassifier) -> None:
    with pytest.raises(Undecodable):
        await classifier.classify(b"undecodable")
    [child] = living(KIT.module)
    with pytest.raises(ModelError):
        await classifier.classify(b"model")
    assert living(KIT.module) == [child]


@pytest.mark.parametrize("trouble", ["gone", "ConfigurationError"])
async def test_a_model_that_cannot_be_loaded_any_more_is_away(
    sandbox: Sandbox, trouble: str
) -> None:
    """Its file was replaced, or its volume is not mounted; where that is, is nobody's news."""
    kit = Kit.of("classification.odd_network", trouble=trouble)
    classifier = LocalClassifier("test", "test", sandbox, hash_model=lambda: "ff", kit=lambda: kit)
    with pytest.raises(ModelAway, match="cannot be loaded") as refusal:
        await classifier.classify(b"")
    assert "/models" not in refusal.value.message


async def test_a_model_that_is_not_there_any_more_is_away(sandbox: Sandbox) -> None:
    def missing() -> Kit:
        raise ConfigurationError("The weights are missing.")

    classifier = LocalClassifier("test", "test", sandbox, hash_model=lambda: "ff", kit=missing)
    with pytest.raises(ModelAway, match="cannot be loaded"):
        await classifier.classify(b"")


async def test_without_children_the_model_is_away(
    classifier: LocalClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ModelAway):
        await classifier.classify(b"")
