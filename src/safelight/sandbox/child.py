"""The program of a child: load, lock, then answer one request after another.

Guarantees
- Whatever its tasks need is loaded before the lock and before the first byte from outside.
- A task that exceeds its memory is told of; one that exceeds its processor time ends the process.
- It ends when whoever started it hangs up or dies, when it could not read or do what it was asked,
  and when it has grown.

Started clean by children.py: one connection, nothing of the server's environment or memory.
"""

import ctypes
import gc
import importlib
import os
import signal
import socket
from typing import Any, NoReturn

from safelight.errors import ConfigurationError
from safelight.infra.priority import step_back
from safelight.sandbox import protocol
from safelight.sandbox.facts import printable
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.lockdown import lock
from safelight.sandbox.protocol import LONGEST_WORDS, Answer, Request, SandboxTasks

_CONNECTION, _STATM = 3, 4  # the only descriptors besides the standard ones
_FAILED = 70
_SHORT = 64 * 1024
# Numerical libraries start a thread for each core as they are loaded; a child works with one.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def main(order: dict[str, Any]) -> NoReturn:
    """Leaves without a word to anybody: what runs at an interpreter's end has no business here."""
    try:
        _live(order)
    except BaseException:  # noqa: BLE001 - the exit code tells
        os._exit(_FAILED)
    os._exit(0)


def _live(order: dict[str, Any]) -> None:
    os.dup2(order["connection"], _CONNECTION)
    connection = socket.socket(fileno=_CONNECTION)
    limits = SandboxLimits.load(order["limits"])
    step_back()
    try:
        tasks = _prepared(order["module"], order["options"])
        gc.collect()
        gc.freeze()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)  # what loading took and gave back
        size = _Size(limits.growth_bytes)
        found = lock(limits, order["parent"], _STATM, size.at_start)
    except Exception as error:  # noqa: BLE001 - told to whoever waits for it
        mine = isinstance(error, ConfigurationError)
        _say(connection, Answer({"failed": _words(error), "configuration": mine}))
        return
    protections = {name: getattr(found, name) for name in found.__slots__}
    _say(connection, Answer({"protections": protections}))
    while request := protocol.receive_request(connection):
        answer, fine = _performed(tasks, request, limits.cpu_seconds)
        request = None  # its bytes, before the size is taken
        last = not fine or size.has_grown()
        _say(connection, answer, last=last)
        del answer
        if last:
            return


def _prepared(module: str, options: dict[str, Any]) -> SandboxTasks:
    for name in _ONE_THREAD:
        os.putenv(name, "1")
    loaded = importlib.import_module(module)
    prepare = getattr(loaded, "prepare", None)
    tasks: SandboxTasks = prepare(**options) if prepare else loaded.TASKS
    return tasks


def _performed(tasks: SandboxTasks, request: Request, cpu_seconds: float) -> tuple[Answer, bool]:
    """The answer, and whether this process can go on. Past the time, SIGPROF ends it."""
    if request.data is None:
        return Answer({"unread": True}), False
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        return tasks[request.task](request.data, request.parameters), True
    except MemoryError:
        return Answer({"exceeded": "memory"}), False
    except Exception as error:  # noqa: BLE001 - a decoder raises whatever the bytes lead it into
        return Answer({"exceeded": "crash", "words": _words(error)}), False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class _Size:
    """What the process has mapped, by a file that stays open behind the lock."""

    def __init__(self, growth_bytes: int) -> None:
        os.closerange(_STATM, 4096)
        self._page = os.sysconf("SC_PAGE_SIZE")
        try:
            self._file: int | None = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:  # not Linux: neither limits nor growth can be told
            self._file = None
        self.at_start = self._now()
        self._most = self.at_start + growth_bytes

    def has_grown(self) -> bool:
        return self._now() > self._most

    def _now(self) -> int:
        if self._file is None:
            return 0
        return int(os.pread(self._file, 64, 0).split()[0]) * self._page


def _say(connection: socket.socket, answer: Answer, *, last: bool = False) -> None:
    """What is short goes in one piece: whoever waits for it wakes up at each."""
    head, data = protocol.pack_answer(answer, last=last), answer.data
    if len(data) <= _SHORT:
        head, data = head + data, b""
    connection.sendall(head)
    if data:
        connection.sendall(data)


def _words(error: BaseException) -> str:
    text = str(error) if isinstance(error, ConfigurationError) else repr(error)
    return printable(text, LONGEST_WORDS)
