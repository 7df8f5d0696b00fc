"""The fork server: a small process with the decoders loaded, which forks a child for each task.

Guarantees
- A child works under limits.py, has one connection and nothing else, and is gone when it answered,
  exceeded a limit, or its asker hung up. Each gets a last word about how it ended.
- The server dies with the process that started it: its control connection ends.
- It never touches untrusted bytes itself.

Gap: `SIGKILL` from outside (an out-of-memory killer) is told as it is; why, nobody knows.
"""

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from safelight.sandbox import protocol
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import Answer, Ending

SandboxTask = Callable[[bytes, dict[str, Any]], Answer]
SandboxTasks = Mapping[str, SandboxTask]

_FAILED = 70
_PR_SET_PDEATHSIG = 1
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
_KIB = 1024


@dataclass(slots=True)
class _Child:
    connection: socket.socket
    deadline: float
    late: bool = False


class Server:
    def __init__(self, control: socket.socket, limits: SandboxLimits, tasks: SandboxTasks) -> None:
        self._control = control
        self._limits = limits
        self._tasks = tasks
        self._children: dict[int, _Child] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._deaths, self._bell = socket.socketpair()
        for end in (self._deaths, self._bell):
            end.setblocking(False)
        self._poll.register(self._deaths, select.POLLIN)

    def run(self) -> None:
        signal.set_wakeup_fd(self._bell.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            while self._turn():
                pass
        finally:
            for pid in self._children:
                os.kill(pid, signal.SIGKILL)

    def _turn(self) -> bool:
        """False: whoever started us is gone."""
        for number, _ in self._poll.poll(self._patience()):
            if number == self._control.fileno():
                if not self._accept():
                    return False
            elif number == self._deaths.fileno():
                self._deaths.recv(_KIB)
            else:
                self._kill(number)
        self._kill_late()
        self._bury()
        return True

    def _patience(self) -> float | None:
        """In milliseconds, until the first child is late."""
        if not self._children:
            return None
        first = min(child.deadline for child in self._children.values())
        return max(0.0, first - time.monotonic()) * 1000

    def _accept(self) -> bool:
        _, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        if not descriptors:
            return False
        connection = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            self._become_child(connection)
        deadline = time.monotonic() + self._limits.wall_seconds
        self._children[pid] = _Child(connection, deadline)
        self._poll.register(connection, 0)  # tells only that the asker hung up
        return True

    def _become_child(self, connection: socket.socket) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            others = [child.connection for child in self._children.values()]
            for end in (self._control, self._deaths, self._bell, *others):
                end.close()
            _die_with_parent()
            self._limits.apply()
            perform(connection, self._tasks)
        except BaseException:  # noqa: BLE001 - no line of the server may run in a child
            os._exit(_FAILED)
        os._exit(0)

    def _kill(self, number: int) -> None:
        for pid, child in self._children.items():
            if child.connection.fileno() == number:
                self._poll.unregister(child.connection)
                os.kill(pid, signal.SIGKILL)

    def _kill_late(self) -> None:
        now = time.monotonic()
        for pid, child in self._children.items():
            if child.deadline <= now and not child.late:
                child.late = True
                os.kill(pid, signal.SIGKILL)

    def _bury(self) -> None:
        for pid in list(self._children):
            gone, status, usage = os.wait4(pid, os.WNOHANG)
            if gone:
                self._say_goodbye(self._children.pop(pid), status, usage.ru_maxrss * _KIB)

    def _say_goodbye(self, child: _Child, status: int, peak_bytes: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        ending = Ending(max(code, 0), max(-code, 0), child.late, peak_bytes)
        try:
            self._poll.unregister(child.connection)
            child.connection.settimeout(1)
            child.connection.sendall(ending.pack())
        except (OSError, KeyError):
            pass  # the asker hung up
        finally:
            child.connection.close()


def _die_with_parent() -> None:
    """Linux alone can promise that a child does not outlive a server that was killed."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


def perform(connection: socket.socket, tasks: SandboxTasks) -> None:
    """Runs in the child: one request, one answer."""
    request = protocol.receive_request(connection)
    try:
        answer = tasks[request.task](request.data, request.parameters)
    except MemoryError:
        answer = Answer({"exceeded": "memory"})
    protocol.send_answer(connection, answer)


def main(descriptor: str, limits: str, tasks: str) -> None:
    """`tasks` names the module whose TASKS the children can do; it may have a `warm_up`."""
    module = importlib.import_module(tasks)
    if warm_up := getattr(module, "warm_up", None):
        warm_up()
    gc.collect()
    gc.freeze()  # children share these pages as long as nobody touches them
    control = socket.socket(fileno=int(descriptor))
    Server(control, SandboxLimits.load(limits), module.TASKS).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
