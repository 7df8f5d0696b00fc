"""Whatever a child does, the process that asked goes on."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.sandbox import Sandbox, SandboxDown, SandboxTimeout, TaskDied
from safelight.testing.waiting import until

MIB = 1024 * 1024
LIMITS = SandboxLimits(
    memory_bytes=200 * MIB, cpu_seconds=1, wall_seconds=40, answer_bytes=20 * MIB
)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    made = Sandbox(LIMITS, tasks="sandbox.naughty")
    yield made
    await made.close()


async def test_it_works(sandbox: Sandbox) -> None:
    answer = await sandbox.run("echo", b"abc", also=1)
    assert (answer.facts, answer.data) == ({"length": 3, "also": 1}, b"cba")
    large = os.urandom(15 * MIB)
    assert (await sandbox.run("echo", large)).data == large[::-1]
    assert (await sandbox.run("echo", b"")).data == b""


async def test_every_task_has_a_child_of_its_own(sandbox: Sandbox) -> None:
    answers = await asyncio.gather(*(sandbox.run("pid", b"") for _ in range(10)))
    assert len({answer.facts["pid"] for answer in answers}) == 10
    assert len({answer.facts["server"] for answer in answers}) == 1


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
    with pytest.raises(SandboxDown):
        await sandbox.run("die", b"", signal=int(signal.SIGKILL))
    with pytest.raises(SandboxDown):
        await sandbox.run("leave", b"")


async def test_a_child_that_hangs_is_ended() -> None:
    hasty = Sandbox(SandboxLimits(wall_seconds=0.5), tasks="sandbox.naughty")
    with pytest.raises(SandboxTimeout):
        await hasty.run("hang", b"")
    assert isinstance(SandboxTimeout(), TimeoutError)
    assert children(hasty) == []
    await hasty.close()


async def test_an_asker_that_gives_up_takes_the_child_along(sandbox: Sandbox) -> None:
    await sandbox.run("echo", b"")
    asking = asyncio.create_task(sandbox.run("hang", b"x" * MIB))
    await until(lambda: children(sandbox))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: not children(sandbox), seconds=2)
    assert (await sandbox.run("echo", b"ok")).data == b"ko"


async def test_nothing_is_within_reach(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parameters = {"path": str(tmp_path / "trace"), "port": listener.getsockname()[1]}
        answer = await sandbox.run("reach_out", b"", **parameters)
    assert answer.facts == {"worked": []}
    assert list(tmp_path.iterdir()) == []


async def test_a_server_that_is_gone_is_started_anew(sandbox: Sandbox) -> None:
    first = (await sandbox.run("pid", b"")).facts["server"]
    os.kill(first, signal.SIGKILL)
    second = (await sandbox.run("pid", b"")).facts["server"]
    assert second != first
    hanging = asyncio.create_task(sandbox.run("hang", b""))
    await until(lambda: children(sandbox))
    [child] = children(sandbox)
    os.kill(second, signal.SIGKILL)
    assert psutil.wait_procs([child], timeout=5)[1] == []
    assert (await sandbox.run("echo", b"ok")).data == b"ko"
    hanging.cancel()
    await asyncio.wait([hanging])


async def test_closing_ends_everything(sandbox: Sandbox) -> None:
    server = (await sandbox.run("pid", b"")).facts["server"]
    await sandbox.close()
    assert not psutil.pid_exists(server)
    await sandbox.close()


def test_the_server_dies_with_its_owner(tmp_path: Path) -> None:
    """Killed, without a chance to say goodbye, while a child hangs."""
    program = """
import asyncio, json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.sandbox import Sandbox
async def main():
    sandbox = Sandbox(SandboxLimits(wall_seconds=600), tasks="sandbox.naughty")
    facts = (await sandbox.run("pid", b"")).facts
    asyncio.create_task(sandbox.run("hang", b""))
    await asyncio.sleep(0.3)
    print(facts["server"], flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    search = json.dumps(sys.path)
    owner = subprocess.Popen([sys.executable, "-c", program, search], stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout
        server = psutil.Process(int(owner.stdout.readline()))
        below = [server, *server.children()]
        assert len(below) == 2
        owner.kill()
    gone, alive = psutil.wait_procs(below, timeout=5)
    assert (len(gone), alive) == (2, [])


def children(sandbox: Sandbox) -> list[psutil.Process]:
    server = sandbox._server
    return psutil.Process(server.pid).children() if server and server.poll() is None else []
