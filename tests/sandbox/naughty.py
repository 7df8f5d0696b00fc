"""Tasks that misbehave in every way a decoder can."""

import ctypes
import os
import signal
import time
from typing import Any

from safelight.sandbox.protocol import Answer, SandboxTask


def _echo(data: bytes, parameters: dict[str, Any]) -> Answer:
    return Answer({"length": len(data), **parameters}, data[::-1])


def _hang(_: bytes, __: dict[str, Any]) -> Answer:
    time.sleep(3600)
    return Answer({})


def _burn(_: bytes, __: dict[str, Any]) -> Answer:
    while True:
        pass


def _eat(_: bytes, __: dict[str, Any]) -> Answer:
    eaten = []
    while True:
        eaten.append(bytearray(16 * 1024 * 1024))


def _crash(_: bytes, __: dict[str, Any]) -> Answer:
    ctypes.string_at(0)
    return Answer({})


def _die(_: bytes, parameters: dict[str, Any]) -> Answer:
    os.kill(os.getpid(), parameters["signal"])
    signal.pause()
    return Answer({})


def _fail(_: bytes, __: dict[str, Any]) -> Answer:
    raise ValueError("a decoder's own trouble")


def _leave(_: bytes, __: dict[str, Any]) -> Answer:
    os._exit(0)


def _flood(_: bytes, __: dict[str, Any]) -> Answer:
    return Answer({}, bytes(40 * 1024 * 1024))


def _pid(_: bytes, __: dict[str, Any]) -> Answer:
    return Answer({"pid": os.getpid(), "parent": os.getppid()})


def _keep(_: bytes, parameters: dict[str, Any]) -> Answer:
    """What is never given back."""
    _KEPT.append(bytearray(parameters["bytes"]))
    return _pid(b"", {})


def _lie(_: bytes, parameters: dict[str, Any]) -> Answer:
    """As a child in an attacker's hands may answer: past the protocol."""
    os.write(3, bytes.fromhex(parameters["wire"]))
    time.sleep(3600)
    return Answer({})


_KEPT: list[bytearray] = []
TASKS: dict[str, SandboxTask] = {
    "echo": _echo, "hang": _hang, "burn": _burn, "eat": _eat, "crash": _crash, "die": _die,
    "fail": _fail, "leave": _leave, "flood": _flood, "pid": _pid, "keep": _keep, "lie": _lie,
}  # fmt: skip
