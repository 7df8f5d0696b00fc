"""Children for tests to kill. One process has everything imported and forks them: a fork costs little,
an interpreter with all of Safelight in it costs a second.

    child = bear("objects.life:live", url, "put", points="objects.put=exit")
    assert child.wait() == EXIT_CODE

The function is a coroutine function of a module below tests/; its arguments travel as JSON.
"""

import asyncio
import atexit
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_LONGEST_LIFE = 60  # seconds; nobody waits for a child that a test forgot
_FAILED = 70


class Child:
    """Looks enough like a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._over = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, seconds: float = _LONGEST_LIFE) -> int:
        if not self._over.wait(seconds) or self.returncode is None:
            raise TimeoutError(f"the child {self.pid} still lives")
        return self.returncode

    def ended(self, code: int) -> None:
        self.returncode = code
        self._over.set()


def bear(function: str, *arguments: Any, points: str = "") -> Child:
    return _nursery().bear(function, *arguments, points=points)


@cache
def _nursery() -> "Nursery":
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


class Nursery:
    """One for each process that runs tests."""

    def __init__(self) -> None:
        path = ":".join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        self._born: queue.Queue[Child] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()

    def bear(self, function: str, *arguments: Any, points: str) -> Child:
        assert self._process.stdin
        order = {"function": function, "arguments": arguments, "points": points}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._born.get(timeout=_LONGEST_LIFE)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)

    def _hear(self) -> None:
        assert self._process.stdout
        children: dict[str, Child] = {}
        for line in self._process.stdout:
            pid, _, code = line.strip().partition(" ")
            if code:
                children.pop(pid).ended(int(code))
            else:
                children[pid] = Child(int(pid))
                self._born.put(children[pid])


# In the process itself


def main() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    orders = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 1024)
            bury()
        if 0 in ready:
            orders += (more := os.read(0, 65536))
            if not more:
                return
            *whole, orders = orders.split(b"\n")
            for order in whole:
                say(fork(json.loads(order)))


def fork(order: dict[str, Any]) -> int:
    module, _, name = order["function"].partition(":")
    function = getattr(import_module(module), name)  # before the fork, so that it stays imported
    if child := os.fork():
        return child
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.alarm(_LONGEST_LIFE)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what it says there would be taken for ours
    try:
        from safelight.infra import failpoints

        failpoints.arm_all(order["points"])
        asyncio.run(function(*order["arguments"]))
    except BaseException as error:  # noqa: BLE001 - whatever it is, this child ends here
        print(repr(error), file=sys.stderr)
        os._exit(_FAILED)
    os._exit(0)


def bury() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say(pid, os.waitstatus_to_exitcode(status))


def say(*numbers: int) -> None:
    print(*numbers, flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
