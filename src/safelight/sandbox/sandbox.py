"""Untrusted bytes are opened elsewhere: in children of a fork server, one for each task.

    answer = await sandbox.run("inspect", data, max_pixels=…)

Guarantees
- A child's death is an answer about the bytes (`TaskDied`), never a fault of this process.
- A run ends within the limits' wall time; hanging up, being cancelled and dying end the child.
- The server starts on first use, is started anew when it is gone, and ends with this process.

What is not the bytes' fault raises something else: `SandboxTimeout` when the machine was too slow
to say, `SandboxDown` when the server went away. Trying again may help with both.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

from safelight.errors import SafelightError
from safelight.infra.failpoints import reach
from safelight.sandbox import protocol
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import (
    Answer,
    Bounds,
    Ending,
    Garbled,
    Inspection,
    Rendition,
    Request,
)

TASKS: Final = "safelight.sandbox.tasks"
_GRACE_SECONDS = 5.0  # for the server to end a child that is late
_STOP_SECONDS = 5.0
_CHUNK = 256 * 1024
# The search path travels with the command, as the server may not inherit the environment.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[4]); "
    "from safelight.sandbox.server import main; main(*sys.argv[1:4])"
)


class TaskDied(SafelightError):
    """The bytes could not be handled within the limits."""

    code = "TASK_DIED"

    def __init__(self, reason: str) -> None:
        super().__init__(f"{self.default_message()} Reason: {reason}.")
        self.reason = reason  # memory, cpu, crash or answer


class SandboxTimeout(SafelightError, TimeoutError):
    """Opening the bytes took longer than its time limit."""

    code = "SANDBOX_TIMEOUT"


class SandboxDown(SafelightError):
    """The process that opens untrusted bytes went away."""

    code = "SANDBOX_DOWN"


class Sandbox:
    def __init__(
        self, limits: SandboxLimits | None = None, *, at_once: int | None = None, tasks: str = TASKS
    ) -> None:
        self._limits = limits or SandboxLimits()
        self._tasks = tasks
        self._slots = asyncio.Semaphore(at_once or os.cpu_count() or 1)
        self._starting = asyncio.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def inspect(self, data: bytes, bounds: Bounds) -> Inspection:
        """What there is to know about an image; also about one that killed its child."""
        try:
            answer = await self.run("inspect", data, **bounds.to_json())
        except TaskDied as death:
            return Inspection.died(death.reason, len(data))
        return Inspection.load(answer.facts)

    async def render(
        self, data: bytes, *, max_side: int | None = None, square: int | None = None
    ) -> Rendition:
        """The image anew: first frame, upright, without metadata, safe to decode anywhere."""
        answer = await self.run("render", data, max_side=max_side, square=square)
        return Rendition.load(answer.facts, answer.data)

    async def run(self, task: str, data: bytes, **parameters: Any) -> Answer:
        request = Request(task, parameters, data)
        async with self._slots:
            await reach("sandbox.run")
            try:
                async with asyncio.timeout(self._limits.wall_seconds + _GRACE_SECONDS):
                    # No last word: the server was gone already, and is started anew for it.
                    output = await self._exchange(request) or await self._exchange(request)
            except TimeoutError as error:
                raise SandboxTimeout from error
        return _judged(output)

    async def close(self) -> None:
        """Hanging up ends the server, and the server its children."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._server is not None:
            server, self._server = self._server, None
            await asyncio.to_thread(_stop, server)

    async def _exchange(self, request: Request) -> bytes:
        connection = await self._ask()
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            with suppress(ConnectionError):  # it died before it had read all; how is told below
                writer.write(protocol.pack_request(request))
                writer.write(request.data)
                await writer.drain()
            return await self._read(reader)
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        output = bytearray()
        with suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK):
                output += chunk
                if len(output) > self._limits.answer_bytes:
                    raise TaskDied("answer")
        return bytes(output)

    async def _ask(self) -> socket.socket:
        """A connection whose other end the server has. One that is gone is started anew, once."""
        for attempt in range(2):
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    control = await self._running()
                    socket.send_fds(control, [b"!"], [theirs.fileno()])
                    return ours
                except OSError as error:
                    ours.close()
                    await self.close()
                    if attempt:
                        raise SandboxDown from error
        raise SandboxDown

    async def _running(self) -> socket.socket:
        async with self._starting:
            if self._server is not None and self._server.poll() is not None:
                await self.close()
            if self._control is None:
                await asyncio.to_thread(self._start)
            assert self._control is not None  # noqa: S101 - just started
            return self._control

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            search = json.dumps([path for path in sys.path if path])
            arguments = [str(descriptor), self._limits.dump(), self._tasks, search]
            self._server = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                [sys.executable, "-I", "-c", _PROGRAM, *arguments],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                env={},
                start_new_session=True,  # a Ctrl-C meant for us is not meant for it
            )
        self._control = ours


def _judged(output: bytes) -> Answer:
    try:
        told, ending = protocol.unpack(output)
        if reason := _death(ending):
            raise TaskDied(reason)
        answer = protocol.unpack_answer(told)
    except Garbled as error:
        raise SandboxDown from error
    if exceeded := answer.facts.get("exceeded"):
        raise TaskDied(exceeded)
    return answer


def _death(ending: Ending) -> str | None:
    """None for a good end. What was ended from outside says nothing about the bytes."""
    if ending.late:
        raise SandboxTimeout
    if ending.signal == signal.SIGKILL:
        raise SandboxDown("A child that opened untrusted bytes was killed from outside.")
    if ending.signal == signal.SIGXCPU:
        return "cpu"
    return "crash" if ending.signal or ending.code else None


def _stop(server: "subprocess.Popen[bytes]") -> None:
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
