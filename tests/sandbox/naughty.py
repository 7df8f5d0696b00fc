"""Tasks that misbehave in every way a decoder can."""

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safelight.sandbox.protocol import Answer
from safelight.sandbox.server import SandboxTask


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
    return Answer({"pid": os.getpid(), "server": os.getppid()})


def _reach_out(_: bytes, parameters: dict[str, Any]) -> Answer:
    """Tries everything a program could do to the world; tells what worked."""
    attempts: dict[str, Callable[[], object]] = {
        "read": lambda: Path("/etc/hostname").read_bytes(),
        "write": lambda: Path(parameters["path"]).write_text("here I am"),
        "connect": lambda: socket.create_connection(("127.0.0.1", parameters["port"]), 1),
        "pipe": os.pipe,
        "duplicate": lambda: os.dup(0),
        "environment": lambda: os.environ["SAFELIGHT_SECRET_KEY"],
    }
    worked = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, KeyError):
            continue
        worked.append(name)
    return Answer({"worked": worked})


TASKS: dict[str, SandboxTask] = {
    "echo": _echo, "hang": _hang, "burn": _burn, "eat": _eat, "crash": _crash, "die": _die,
    "fail": _fail, "leave": _leave, "flood": _flood, "pid": _pid, "reach_out": _reach_out,
}  # fmt: skip
