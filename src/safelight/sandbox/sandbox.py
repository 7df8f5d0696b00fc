"""Untrusted bytes are opened in children that hold nothing: no secret, no file, no connection.

    answer = await sandbox.run("inspect", data, max_pixels=…)

Guarantees
- A child's death is an answer about the bytes (`TaskDied`), never a fault of this process.
- A run ends within the limits' wall time; being cancelled and dying end the child.
- An organization whose images take long leaves one more child to another.
- A child has met no more than one image at a time. One that died, failed, grew or said what cannot
  be true is not used again; the last is a crash like any other.
- Children start when there is work, leave after a while without, and end with this process.

What is not the bytes' fault raises something else: `SandboxTimeout` when the machine was too slow
to say, `ChildrenAway` when none can be started or two were killed from outside, `SourceAway` when
the bytes could not be read, `KitUnusable` when one cannot load what it needs. Trying again may help
with all of them.
"""

import asyncio
import fcntl
import os
import signal
from collections import defaultdict
from collections.abc import Callable
from io import FileIO
from typing import Any, Final, TypeVar

import structlog

from safelight.errors import ConfigurationError, SafelightError, Unavailable
from safelight.infra.failpoints import reach
from safelight.infra.turns import Turns
from safelight.sandbox import protocol
from safelight.sandbox.children import Child, Gone, Kit, TooLong
from safelight.sandbox.facts import Garbled, ensure, fields, webp, words
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.lockdown import Protections, offered
from safelight.sandbox.protocol import (
    LONGEST_WORDS,
    Answer,
    Bounds,
    FaultKind,
    Inspection,
    Rendition,
)

T = TypeVar("T")

TASKS: Final = "safelight.sandbox.tasks"
IDLE_SECONDS: Final = 30.0
_START_SECONDS: Final = 60.0
_STARTED_BYTES: Final = 64 * 1024
_ATTEMPTS: Final = 2
_LAST_SECONDS: Final = 5.0  # for a child that has hung up to be gone
_LARGE: Final = 1024 * 1024  # from here on, copying is a thread's work
_THUMBNAIL_BYTES: Final = 8 * 1024 * 1024
_SEALED: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class TaskDied(SafelightError):
    """The bytes could not be handled within the limits."""

    code = "TASK_DIED"
    says_it_all = True

    def __init__(self, reason: FaultKind, words: str = "") -> None:
        super().__init__(f"{self.default_message()} Reason: {reason}.")
        self.reason = reason
        self.words = words  # what the task itself said, for people who look closer


class SandboxTimeout(SafelightError, TimeoutError):
    """Opening the bytes took longer than its time limit."""

    code = "SANDBOX_TIMEOUT"


class SandboxDown(SafelightError):
    """Nobody is there to open untrusted bytes."""

    code = "SANDBOX_DOWN"


class KitUnusable(SandboxDown):
    """A process that opens untrusted bytes cannot load what it needs."""


class ChildrenAway(SandboxDown, Unavailable):
    """No process that opens untrusted bytes can be started, or is left alone. Is there memory left,
    and room for one more process?"""

    code = "CHILDREN_AWAY"


class SourceAway(Unavailable):
    """The bytes could not be read where they lie. Is that disk well?"""


class Sandbox:
    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        at_once: int | None = None,
        tasks: str = TASKS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._limits = limits or SandboxLimits()
        self._at_once = at_once or cores()
        self._own = Kit(tasks)
        self._idle_seconds = idle_seconds
        self._turns: dict[Kit, Turns] = {}
        self._idle: defaultdict[Kit, list[Child]] = defaultdict(list)
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[int]] = set()
        self._found: Protections | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def protections(self) -> Protections:
        """As the first child told them; a guess until there was one."""
        return self._found or offered()

    async def inspect(self, data: bytes | int, bounds: Bounds) -> Inspection:
        """What there is to know about an image; also about one that killed its child."""
        size = _size(data)

        def load(answer: Answer) -> Inspection:
            return Inspection.load(answer.facts, size)

        try:
            return await self.ask("inspect", data, self._own, bounds.to_json(), load)
        except TaskDied as death:
            return Inspection.died(death.reason, size)

    async def render(
        self, data: bytes | int, *, max_side: int | None = None, square: int | None = None
    ) -> Rendition:
        """The image anew: first frame, upright, without metadata, safe to decode anywhere."""
        wanted = {"max_side": max_side, "square": square}

        def load(answer: Answer) -> Rendition:
            return Rendition.load(answer.facts, answer.data, **wanted)

        return await self.ask("render", data, self._own, wanted, load)

    async def thumbnail(self, data: bytes | int, side: int) -> bytes | None:
        """WebP, upright, at most `side` wide and high; None: it cannot be drawn."""

        def load(answer: Answer) -> bytes:
            fields(answer.facts, ())
            return webp(answer.data, _THUMBNAIL_BYTES) if answer.data else b""

        return await self.ask("thumbnail", data, self._own, {"side": side}, load) or None

    async def run(
        self, task: str, source: bytes | int, *, kit: Kit | None = None, **parameters: Any
    ) -> Answer:
        """For answers that are looked at later, as anything that comes from outside is."""
        return await self.ask(task, source, kit or self._own, parameters, lambda answer: answer)

    async def ask(
        self,
        task: str,
        source: bytes | int,
        kit: Kit,
        parameters: dict[str, Any],
        load: Callable[[Answer], T],
    ) -> T:
        """`source`: bytes, or an open file's descriptor, which stays the caller's; a child can only
        read it. `load` raises `Garbled` for what cannot be true, and that child is not used again;
        what else it raises says nothing against the child."""
        request = protocol.pack_request(task, parameters, _size(source))
        turns = self._turns_of(kit)
        mine = await turns.take()
        try:
            await reach("sandbox.run")
            descriptor = await _to_read(source)
            try:
                for _ in range(_ATTEMPTS):
                    if (found := await self._asked(kit, request, descriptor, load)) is not None:
                        return found
            finally:
                if descriptor != source:
                    os.close(descriptor)
        finally:
            turns.give(mine)
        raise ChildrenAway

    async def prepare(self, kit: Kit) -> None:
        """Starts a child, so that what it cannot load is said now and not at the first image."""
        async with self._turns_of(kit).turn():
            child = await self._taken(kit)
            self._rest(kit, child)

    async def close(self) -> None:
        """For good: whoever still waits for an answer hears that there is nobody to give one."""
        self._closed = True
        children = [*self._busy, *(child for idle in self._idle.values() for child in idle)]
        self._idle.clear()
        if self._looking:
            self._looking.cancel()
        for child in children:
            self._end(child)
        while self._ending:
            await asyncio.wait(self._ending)

    def _turns_of(self, kit: Kit) -> Turns:
        if (turns := self._turns.get(kit)) is None:
            turns = self._turns[kit] = Turns(kit.at_once or self._at_once, guests=True)
        return turns

    async def _asked(
        self, kit: Kit, request: bytes, descriptor: int, load: Callable[[Answer], T]
    ) -> T | None:
        """None: the child was killed, not necessarily by what it did."""
        limits = kit.limits or self._limits
        child = await self._taken(kit)
        alarm = asyncio.get_running_loop().call_later(limits.wall_seconds, child.is_late)
        try:
            child.ask(request, descriptor)
            answer, last = await child.answer(limits.answer_bytes)
            failure = _failure(answer.facts)
            found = None if failure else load(answer)
        except Gone as error:
            code = await self._end(child, _LAST_SECONDS)
            if child.late:
                raise SandboxTimeout from error
            _blame(code)
            return None
        except (TooLong, Garbled) as error:
            self._end(child)
            too_long = isinstance(error, TooLong)
            raise TaskDied(FaultKind.ANSWER if too_long else FaultKind.CRASH) from error
        except BaseException:
            self._end(child)
            raise
        finally:
            alarm.cancel()
        if last or failure:
            self._end(child)
        else:
            self._rest(kit, child)
        if failure:
            raise failure
        return found

    async def _taken(self, kit: Kit) -> Child:
        """One that waits, else a new one; the others have died in their sleep."""
        while idle := self._idle[kit]:
            child = idle.pop()
            if child.waits:
                self._busy.add(child)
                return child
            self._end(child)
        for _ in range(_ATTEMPTS):
            if (started := await self._started(kit)) is not None:
                return started
        raise ChildrenAway

    async def _started(self, kit: Kit) -> Child | None:
        """None: it was killed before it was ready."""
        await reach("sandbox.start")
        if self._closed:
            raise ChildrenAway
        try:
            child = Child.begin(kit, kit.limits or self._limits)
        except OSError as error:
            raise ChildrenAway from error
        self._busy.add(child)
        try:
            async with asyncio.timeout(_START_SECONDS):
                told, _ = await child.answer(_STARTED_BYTES)
        except BaseException as error:
            self._end(child)
            if isinstance(error, Gone):
                return None
            if isinstance(error, TimeoutError | Garbled | TooLong):
                raise ChildrenAway from error
            raise
        if "failed" in told.facts:
            await self._end(child)
            wrong = ConfigurationError if told.facts["configuration"] else KitUnusable
            raise wrong(told.facts["failed"])
        self._tell(Protections(**told.facts["protections"]))
        return child

    def _tell(self, found: Protections) -> None:
        """Once, by the first of them: the others are the same."""
        if self._found is None:
            self._found = found
            structlog.get_logger().info("a child is locked", lacking=found.missing)

    def _rest(self, kit: Kit, child: Child) -> None:
        if self._closed:
            self._end(child)
            return
        loop = asyncio.get_running_loop()
        child.rests_since = loop.time()
        self._busy.discard(child)
        self._idle[kit].append(child)
        if self._looking is None:
            self._looking = loop.call_later(self._idle_seconds, self._retire)

    def _retire(self) -> None:
        """Those that have had nothing to do. One timer for all: an image sets none."""
        loop = asyncio.get_running_loop()
        long_ago = loop.time() - self._idle_seconds
        for idle in self._idle.values():
            for child in [child for child in idle if child.rests_since <= long_ago]:
                idle.remove(child)
                self._end(child)
        some = any(self._idle.values()) or self._busy
        self._looking = loop.call_later(self._idle_seconds / 2, self._retire) if some else None

    def _end(self, child: Child, patience: float = 0) -> "asyncio.Task[int]":
        self._busy.discard(child)
        if not patience:
            child.kill()
        ending = asyncio.create_task(child.ended(patience))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending


def cores() -> int:
    """Those this process may use, not all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(source: bytes | int) -> int:
    return len(source) if isinstance(source, bytes) else os.fstat(source).st_size


async def _to_read(source: bytes | int) -> int:
    """A descriptor through which nothing can be written: the child may be in the hands of the image
    before, and others read the same file."""
    if isinstance(source, int):
        if fcntl.fcntl(source, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            return source
        return os.open(f"/proc/self/fd/{source}", os.O_RDONLY | os.O_CLOEXEC)
    return await _copied(source) if len(source) > _LARGE else _in_memory(source)


async def _copied(source: bytes) -> int:
    """A thread cannot be called back: what it makes for one who has gone is closed when it is."""
    copying = asyncio.get_running_loop().run_in_executor(None, _in_memory, source)
    try:
        return await asyncio.shield(copying)
    except asyncio.CancelledError:
        copying.add_done_callback(_unwanted)
        raise


def _unwanted(copying: "asyncio.Future[int]") -> None:
    if not copying.cancelled() and copying.exception() is None:
        os.close(copying.result())


def _in_memory(data: bytes) -> int:
    """A file without a name or a disk."""
    descriptor = os.memfd_create("image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with FileIO(descriptor, "wb", closefd=False) as file:
            file.write(data)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _failure(facts: dict[str, Any]) -> TaskDied | SourceAway | None:
    """Why there is no answer, in the child's own words: it could not read the bytes, or the task
    exceeded a limit."""
    if "unread" in facts:
        ensure(facts["unread"] is True)
        return SourceAway()
    if "exceeded" not in facts:
        return None
    reason = facts["exceeded"]
    ensure(reason in (FaultKind.MEMORY, FaultKind.CRASH))
    return TaskDied(FaultKind(reason), words(facts.get("words", ""), LONGEST_WORDS))


def _blame(code: int) -> None:
    """What was ended from outside says nothing about the bytes."""
    if code in {-signal.SIGPROF, -signal.SIGXCPU}:
        raise TaskDied(FaultKind.CPU)
    if code not in {-signal.SIGKILL, -signal.SIGTERM, 0}:
        raise TaskDied(FaultKind.CRASH)
