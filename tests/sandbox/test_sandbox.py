"""Whatever a child does, the process that asked goes on."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

import psutil
import pytest

from safelight.errors import ConfigurationError
from safelight.infra import failpoints
from safelight.infra.away import is_away
from safelight.infra.turns import whose
from safelight.sandbox import sandbox as sandboxes
from safelight.sandbox.children import Kit
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import Bounds
from safelight.sandbox.sandbox import (
    ChildrenAway,
    Sandbox,
    SandboxDown,
    SandboxTimeout,
    SourceAway,
    TaskDied,
)
from safelight.testing.waiting import until
from sandbox.shared import living

MIB = 1024 * 1024
LIMITS = SandboxLimits(
    memory_bytes=200 * MIB, cpu_seconds=1, wall_seconds=40, answer_bytes=20 * MIB
)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    made = Sandbox(LIMITS, at_once=2, tasks="sandbox.naughty")
    yield made
    await made.close()


async def test_children_step_back_behind_whoever_answers_requests(sandbox: Sandbox) -> None:
    child = psutil.Process((await sandbox.run("pid", b"")).facts["pid"])
    assert child.nice() > psutil.Process().nice()
    group = Path(f"/proc/{child.pid}/autogroup")
    if group.exists():  # the processor is shared between sessions, and then within them
        assert group.read_text().split()[-1] != "0"


async def test_it_works(sandbox: Sandbox) -> None:
    answer = await sandbox.run("echo", b"abc", also=1)
    assert (answer.facts, answer.data) == ({"length": 3, "also": 1}, b"cba")
    large = os.urandom(15 * MIB)
    assert (await sandbox.run("echo", large)).data == large[::-1]
    assert (await sandbox.run("echo", b"")).data == b""


async def test_a_child_is_used_again(sandbox: Sandbox) -> None:
    answers = await asyncio.gather(*(sandbox.run("pid", b"") for _ in range(20)))
    assert {answer.facts["parent"] for answer in answers} == {os.getpid()}
    assert 1 <= len({answer.facts["pid"] for answer in answers}) <= 2


async def test_an_open_file_is_handed_over_as_it_is(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"abc" * 1000)
    with path.open("rb") as file:
        file.seek(1234)  # whoever else reads it is not disturbed, and does not disturb
        for _ in range(2):
            answer = await sandbox.run("echo", file.fileno())
            assert answer.data == (b"abc" * 1000)[::-1]
        assert file.tell() == 1234


async def test_long_work_of_one_organization_leaves_a_child_to_another(sandbox: Sandbox) -> None:
    whose.set("whale")
    long = [asyncio.create_task(sandbox.run("hang", b"")) for _ in range(4)]
    await until(lambda: len(living("sandbox.naughty")) == 2)
    whose.set("shrimp")
    async with asyncio.timeout(20):
        assert (await sandbox.run("echo", b"abc")).data == b"cba"
    for task in long:
        task.cancel()
    await asyncio.wait(long)


async def test_kits_are_apart(sandbox: Sandbox) -> None:
    """Each has children of its own, with what it loads, and turns of its own."""
    mine = (await sandbox.run("pid", b"")).facts["pid"]
    other = Kit.of("sandbox.naughty", at_once=1)
    theirs = {(await sandbox.run("pid", b"", kit=other)).facts["pid"] for _ in range(3)}
    assert len(theirs) == 1
    assert mine not in theirs
    hanging = asyncio.create_task(sandbox.run("hang", b"", kit=other))
    assert (await sandbox.run("echo", b"ok")).data == b"ko"
    hanging.cancel()
    await asyncio.wait([hanging])


async def test_what_a_kit_cannot_load_is_said(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxDown, match="no_such_module"):
        await sandbox.run("echo", b"", kit=Kit("no_such_module"))
    with pytest.raises(ConfigurationError, match="SAFELIGHT_ONNX_MODEL is wrong"):
        await sandbox.prepare(Kit.of("sandbox.unwilling", words="SAFELIGHT_ONNX_MODEL is wrong"))
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


async def test_a_child_that_has_grown_makes_room(sandbox: Sandbox) -> None:
    first = (await sandbox.run("keep", b"", bytes=MIB)).facts["pid"]
    assert (await sandbox.run("keep", b"", bytes=40 * MIB)).facts["pid"] == first
    assert (await sandbox.run("keep", b"", bytes=MIB)).facts["pid"] != first


async def test_children_leave_when_there_is_nothing_to_do() -> None:
    hasty = Sandbox(LIMITS, tasks="sandbox.naughty", idle_seconds=0.05)
    child = psutil.Process((await hasty.run("pid", b"")).facts["pid"])
    await until(lambda: not child.is_running())
    assert (await hasty.run("echo", b"ok")).data == b"ko"
    await hasty.close()


@pytest.mark.parametrize(
    "wire",
    [
        "ffffffff" + "0000000000000000" + "00",  # facts of four gigabytes
        "00000002" + "0000000000000000" + "00" + b"[]".hex(),  # no facts
        "00000002" + "0000000000000000" + "00" + b"{]".hex(),
        "00000002" + "0000000000000000" + "00" + b"{}".hex() + "00" * 99,  # more than was said
        "00004000" + "0000000000000000" + "00" + (b"[" * 0x4000).hex(),
    ],
)
async def test_a_child_that_lies_is_not_believed(sandbox: Sandbox, wire: str) -> None:
    with pytest.raises(TaskDied, match="crash"):
        await sandbox.run("lie", b"", wire=wire)
    with pytest.raises(TaskDied, match="answer"):
        await sandbox.run("lie", b"", wire="00000002" + "00ffffffffffffff" + "00" + b"{}".hex())
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("eat", "memory"),
        ("burn", "cpu"),
        ("crash", "crash"),
        ("fail", "crash"),
        ("flood", "answer"),
    ],
)
async def test_a_death_is_an_answer(sandbox: Sandbox, task: str, reason: str) -> None:
    with pytest.raises(TaskDied) as death:
        await sandbox.run(task, b"data")
    assert death.value.reason == reason
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE])
async def test_signals_of_a_crash(sandbox: Sandbox, number: int) -> None:
    with pytest.raises(TaskDied, match="crash"):
        await sandbox.run("die", b"", signal=int(number))


async def test_being_killed_from_outside_says_nothing_about_the_bytes(sandbox: Sandbox) -> None:
    with pytest.raises(ChildrenAway) as killed:
        await sandbox.run("die", b"", signal=int(signal.SIGKILL))
    assert is_away(killed.value), "whoever asked waits, and spends nothing"
    with pytest.raises(ChildrenAway):
        await sandbox.run("leave", b"")


async def test_a_child_that_hangs_is_ended() -> None:
    hasty = Sandbox(SandboxLimits(wall_seconds=0.5), tasks="sandbox.naughty")
    with pytest.raises(SandboxTimeout):
        await hasty.run("hang", b"")
    assert isinstance(SandboxTimeout(), TimeoutError)
    await hasty.close()
    assert children() == []


async def test_an_asker_that_gives_up_takes_the_child_along(sandbox: Sandbox) -> None:
    await sandbox.run("echo", b"")
    asking = asyncio.create_task(sandbox.run("hang", b"x" * MIB))
    await until(lambda: sandbox._busy)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: not children())
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


async def test_an_asker_that_gives_up_while_its_bytes_are_copied_leaves_nothing_open(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, begun, go_on = sandboxes._in_memory, threading.Event(), threading.Event()

    def held(data: bytes) -> int:
        begun.set()
        assert go_on.wait(60)
        return copy(data)

    monkeypatch.setattr(sandboxes, "_in_memory", held)
    asking = asyncio.create_task(sandbox.run("echo", bytes(2 * MIB)))
    await until(begun.is_set)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    made = copy(b"")  # so that looking for copies finds some
    assert copies() == 1
    go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    os.close(made)
    await until(lambda: not copies())


def test_a_copy_that_does_not_fit_is_not_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(FileIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sandboxes, "FileIO", Full)
    with pytest.raises(OSError, match="No space"):
        sandboxes._in_memory(b"abc")
    assert copies() == 0


async def test_a_file_that_cannot_be_read_says_nothing_about_its_bytes(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A directory stands for it: it can be opened and has a size, and reading it fails."""
    (tmp_path / "something").touch()
    unreadable = os.open(tmp_path, os.O_RDONLY)
    try:
        assert os.fstat(unreadable).st_size
        with pytest.raises(SourceAway) as error:
            await sandbox.run("echo", unreadable)
        assert is_away(error.value), "whoever asked waits, and spends nothing"
        with pytest.raises(SourceAway):
            await sandbox.inspect(unreadable, Bounds(1, 1, 1))
    finally:
        os.close(unreadable)
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


async def test_a_child_that_only_says_so_is_not_asked_again(sandbox: Sandbox) -> None:
    """One in the hands of an image could otherwise keep everybody waiting."""
    await sandbox.run("echo", b"")
    [liar] = children()
    with pytest.raises(SourceAway):
        await sandbox.run("echo", b"", unread=True)
    assert (await sandbox.run("echo", b"ok")).data == b"ko"
    assert liar not in children()
    with pytest.raises(TaskDied, match="crash"):
        await sandbox.run("echo", b"", unread="a little")


async def test_a_child_killed_in_its_sleep_is_replaced(sandbox: Sandbox) -> None:
    answers = await asyncio.gather(*(sandbox.run("pid", b"") for _ in range(4)))
    for pid in {answer.facts["pid"] for answer in answers}:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not any(child.waits for child in sandbox._idle[sandbox._own]))
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


async def test_a_child_killed_at_work_is_replaced_and_asked_again(sandbox: Sandbox) -> None:
    await sandbox.run("echo", b"")
    asking = asyncio.create_task(sandbox.run("hang", b""))
    await until(lambda: sandbox._busy)
    killed: set[int] = set()
    while not asking.done():
        for child in children():
            child.kill()
            killed.add(child.pid)
        await asyncio.sleep(0.01)
    with pytest.raises(SandboxDown):
        await asking
    assert len(killed) >= 2


async def test_a_child_killed_as_it_starts_is_replaced(sandbox: Sandbox) -> None:
    asking = asyncio.create_task(sandbox.run("echo", b"ok"))
    await until(children)
    os.kill(children()[0].pid, signal.SIGKILL)
    assert (await asking).data == b"ko"


async def test_where_no_process_can_be_started_the_work_waits(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ChildrenAway) as error:
        await sandbox.run("echo", b"")
    assert is_away(error.value)


async def test_a_start_that_fails_leaves_nothing(sandbox: Sandbox) -> None:
    failpoints.arm("sandbox.start", "raise@1")
    with pytest.raises(failpoints.FailpointError):
        await sandbox.run("echo", b"")
    failpoints.disarm("sandbox.start")
    assert children() == []
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


async def test_closing_ends_everything(sandbox: Sandbox) -> None:
    """Whoever still waits for an answer hears of it, and starts no child of their own."""
    await sandbox.run("echo", b"")
    hanging = asyncio.create_task(sandbox.run("hang", b""))
    await until(lambda: sandbox._busy)
    await sandbox.close()
    async with asyncio.timeout(20):
        with pytest.raises(ChildrenAway):
            await hanging
    with pytest.raises(ChildrenAway):
        await sandbox.run("echo", b"")
    assert children() == []
    await sandbox.close()


def test_children_die_with_their_owner() -> None:
    """Killed, without a chance to say goodbye, while one child works and one waits."""
    program = """
import asyncio, json, sys
sys.path[:0] = json.loads(sys.argv[1])
from safelight.sandbox.sandbox import Kit, Sandbox
from safelight.sandbox.limits import SandboxLimits
async def main():
    sandbox = Sandbox(SandboxLimits(wall_seconds=600), tasks="sandbox.naughty")
    sandbox._tell = lambda found: None
    other = Kit.of("sandbox.naughty", at_once=1)
    print((await sandbox.run("pid", b"", kit=other)).facts["pid"], flush=True)
    print((await sandbox.run("pid", b"")).facts["pid"], flush=True)
    await sandbox.run("hang", b"")
asyncio.run(main())
"""
    search = json.dumps(sys.path)
    owner = subprocess.Popen([sys.executable, "-c", program, search], stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout
        below = [psutil.Process(int(owner.stdout.readline())) for _ in range(2)]
        owner.kill()
    gone, alive = psutil.wait_procs(below, timeout=5)
    assert (len(gone), alive) == (2, [])


def copies() -> int:
    """Files in memory that this process holds."""
    held = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            held += str(link.readlink()).startswith("/memfd:image")
    return held


def children() -> list[psutil.Process]:
    return living("sandbox.naughty")
