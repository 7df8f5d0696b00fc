"""One child, seen from the process that started it: begun, asked, ended.

Nothing here is bound to an event loop for longer than one call.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from safelight.sandbox import protocol
from safelight.sandbox.facts import Garbled
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import ENVELOPE_BYTES, Answer

_CHUNK: Final = 64 * 1024  # more at once would be fresh pages for every answer, however short
# A child's own: large pages, where the system gives them to those who ask, make up for a part of
# what it costs to have a process to itself.
_ENVIRONMENT: Final = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# The search path travels with the order, as a child inherits no environment.
_PROGRAM: Final = (
    "import json, sys; order = json.loads(sys.argv[1]); sys.path[:] = order.pop('path'); "
    "from safelight.sandbox.child import main; main(order)"
)


class Gone(Exception):
    """The child ended without an answer."""


class TooLong(Exception):
    """The child answers with more than it may."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What a child has loaded: a module with TASKS, or with `prepare(**options)` that gives them.
    `limits` and `at_once` are the sandbox's own where they are not given."""

    module: str
    options: str = "{}"
    limits: SandboxLimits | None = None
    at_once: int | None = None

    @classmethod
    def of(
        cls,
        module: str,
        *,
        limits: SandboxLimits | None = None,
        at_once: int | None = None,
        **options: Any,
    ) -> "Kit":
        return cls(module, json.dumps(options), limits, at_once)


class Child:
    def __init__(self, process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        self.pid = process.pid
        self.late = False
        self.rests_since = 0.0  # by the event loop's clock

    @classmethod
    def begin(cls, kit: Kit, limits: SandboxLimits) -> "Child":
        """Called in the main thread: a child ends with the thread that started it."""
        ours, theirs = socket.socketpair()
        with theirs:
            order = {
                "connection": theirs.fileno(),
                "parent": os.getpid(),
                "module": kit.module,
                "options": json.loads(kit.options),
                "limits": limits.dump(),
                "path": [os.path.abspath(path) for path in sys.path if path],  # noqa: PTH100
            }
            try:
                process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, json.dumps(order)],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,  # a Ctrl-C meant for us is not meant for it
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        return cls(process, ours)

    def ask(self, request: bytes, descriptor: int) -> None:
        """A request fits the socket's buffer, which is empty: nobody asks twice at once."""
        try:
            sent = socket.send_fds(self._connection, [request], [descriptor])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Gone from error
        if sent != len(request):
            raise Gone

    async def answer(self, most_bytes: int) -> tuple[Answer, bool]:
        """And whether it was the last. Raises `Gone`, `TooLong` and `Garbled`."""
        loop = asyncio.get_running_loop()
        found, wanted, envelope = bytearray(), ENVELOPE_BYTES, None
        while len(found) < wanted:
            try:
                chunk = await loop.sock_recv(self._connection, _CHUNK)
            except ConnectionError as error:
                raise Gone from error
            if not chunk:
                raise Gone
            found += chunk
            if envelope is None and len(found) >= ENVELOPE_BYTES:
                envelope = protocol.unpack_envelope(found)
                wanted = ENVELOPE_BYTES + envelope.size
                if wanted > most_bytes:
                    raise TooLong
        if envelope is None:
            raise Garbled
        return protocol.unpack_answer(envelope, found), envelope.last

    @property
    def waits(self) -> bool:
        """Idle and alive: it has said nothing since its last answer, and has not hung up."""
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def is_late(self) -> None:
        """Whoever waits for its answer hears that it is gone."""
        self.late = True
        self._process.kill()

    async def ended(self, patience: float = 0) -> int:
        """Its exit code; minus a signal's number. `patience` is for one that ends by itself, so
        that its own signal is told and not ours."""
        try:
            return await asyncio.to_thread(self._buried, patience)
        finally:
            self._connection.close()

    def kill(self) -> None:
        """Whoever waits for its answer hears that it is gone; they would not if the connection were
        closed under them."""
        with suppress(OSError):  # it has hung up already
            self._connection.shutdown(socket.SHUT_RDWR)
        self._process.kill()

    def _buried(self, patience: float) -> int:
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
