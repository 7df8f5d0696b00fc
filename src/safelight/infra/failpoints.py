"""Named points on every write path where a test can make the world end.

`hit` goes before a step in a thread, `reach` before a step on the event loop; a repo's writes have
theirs by being declared (db.py). Unarmed, each is one look into an empty dict. Armed
(SAFELIGHT_FAILPOINTS="name=action,…", or `arm` in process):

    raise     an error nobody expects         exit   the process dies as by kill -9
    enospc    the disk is full                hang   the step never comes back
    pass      nothing                         hold   the step waits until it is disarmed
    ACTION@N  only the Nth time it is passed

`arm` gives what was armed: a test waits with it until the point is passed, instead of sleeping
(`armed = arm("ingest.rename", "hang")`, `await armed.passed()`).
"""

import asyncio
import errno
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

ACTIONS = frozenset({"raise", "exit", "enospc", "hang", "hold", "pass"})
EXIT_CODE = 86  # tells a test that the death was the one it asked for


class FailpointError(RuntimeError):
    """An armed failpoint was reached."""


class Armed:
    """A point that does something, and tells whoever waits that it was passed."""

    def __init__(self, name: str, action: str, on_pass: int | None = None) -> None:
        self.name = name
        self.action = action
        self.passes = 0
        self._on_pass = on_pass
        self._released = False
        self._changed = threading.Condition()
        self._waiting: list[Callable[[], object]] = []

    def due(self) -> bool:
        with self._changed:
            self.passes += 1
            due = self._on_pass in {None, self.passes}
        self._tell()
        return due

    def release(self) -> None:
        """Those who are held go on; those who hang never do."""
        self._released = self.action == "hold"
        self._tell()

    async def passed(self, times: int = 1, seconds: float = 20) -> None:
        """Returns once it was passed so often, in whichever thread or task."""
        async with asyncio.timeout(seconds):
            await self._until(lambda: self.passes >= times)

    def wait(self, times: int = 1, seconds: float = 20) -> None:
        """The same for a thread."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.passes >= times, seconds):
                raise TimeoutError(f"{self.name} was passed {self.passes} times, not {times}")

    async def stay(self) -> None:
        await self._until(lambda: self._released)

    def stay_in_thread(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._released)

    async def _until(self, true: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            news = asyncio.Event()
            with self._changed:
                if true():
                    return
                self._waiting.append(partial(loop.call_soon_threadsafe, news.set))
            await news.wait()

    def _tell(self) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for wake in waiting:
            with suppress(RuntimeError):  # its loop is over
                wake()


_armed: dict[str, Armed] = {}
DECLARED: set[str] = set()  # of repo functions; grows as their modules are loaded


def declare(module: str, name: str) -> str:
    """The point of a repo function: `safelight.library.repo`, `mark` is library.mark."""
    parts = module.removeprefix("safelight.").removeprefix("infra.").removesuffix(".repo")
    point = f"{parts}.{name}"
    DECLARED.add(point)
    return point


def arm(name: str, action: str) -> Armed:
    action, _, nth = action.partition("@")
    if action not in ACTIONS or (nth and not nth.isdigit()):
        raise ValueError(f"Failpoint action {action!r} is not one of {', '.join(sorted(ACTIONS))}.")
    armed = _armed[name] = Armed(name, action, int(nth) if nth else None)
    return armed


def observe(name: str) -> Armed:
    """Arms a point with nothing but its news."""
    return arm(name, "pass")


def disarm(name: str | None = None) -> None:
    """Disarms one point, or all of them."""
    for each in list(_armed) if name is None else [name]:
        if armed := _armed.pop(each, None):
            armed.release()


def arm_all(specification: str) -> None:
    for part in filter(None, (p.strip() for p in specification.split(","))):
        name, _, action = part.partition("=")
        arm(name, action or "raise")


def hit(name: str) -> None:
    if _armed and (armed := _fire(name)):
        armed.stay_in_thread()


async def reach(name: str) -> None:
    if _armed and (armed := _fire(name)):
        await armed.stay()


def _fire(name: str) -> Armed | None:
    """Acts on an armed point; gives it when the caller is to stay there, in its own way."""
    armed = _armed.get(name)
    if armed is None or not armed.due():
        return None
    if armed.action == "exit":
        sys.stderr.write(f"ended at {name}\n")
        sys.stderr.flush()
        os._exit(EXIT_CODE)
    if armed.action == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if armed.action == "raise":
        raise FailpointError(name)
    return armed if armed.action in {"hang", "hold"} else None
