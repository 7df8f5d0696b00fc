"""Named points on every write path where a test can make the world end.

`hit` goes before a step in a thread, `reach` before a step on the event loop; a repo's writes have
theirs by being declared (db.py). Unarmed, each is one look into an empty dict. Armed
(SAFELIGHT_FAILPOINTS="name=action,…", or `arm` in process):

    raise     an error nobody expects         exit   the process dies as by kill -9
    enospc    the disk is full                hang   the step never comes back
    ACTION@N  only the Nth time it is passed
"""

import asyncio
import errno
import os
import threading
from dataclasses import dataclass, field

ACTIONS = frozenset({"raise", "exit", "enospc", "hang"})
EXIT_CODE = 86  # tells a test that the death was the one it asked for


class FailpointError(RuntimeError):
    """An armed failpoint was reached."""


@dataclass
class _Armed:
    action: str
    on_pass: int | None
    passes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self) -> bool:
        with self.lock:
            self.passes += 1
            return self.on_pass is None or self.passes == self.on_pass


_armed: dict[str, _Armed] = {}
DECLARED: set[str] = set()  # of repo functions; grows as their modules are loaded


def declare(module: str, name: str) -> str:
    """The point of a repo function: `safelight.library.repo`, `mark` is library.mark."""
    parts = module.removeprefix("safelight.").removeprefix("infra.").removesuffix(".repo")
    point = f"{parts}.{name}"
    DECLARED.add(point)
    return point


def arm(name: str, action: str) -> None:
    action, _, nth = action.partition("@")
    if action not in ACTIONS or (nth and not nth.isdigit()):
        raise ValueError(f"Failpoint action {action!r} is not one of {', '.join(sorted(ACTIONS))}.")
    _armed[name] = _Armed(action, int(nth) if nth else None)


def disarm(name: str | None = None) -> None:
    """Disarms one point, or all of them."""
    if name is None:
        _armed.clear()
    else:
        _armed.pop(name, None)


def arm_all(specification: str) -> None:
    for part in filter(None, (p.strip() for p in specification.split(","))):
        name, _, action = part.partition("=")
        arm(name, action or "raise")


def hit(name: str) -> None:
    if _armed and _fire(name):
        threading.Event().wait()


async def reach(name: str) -> None:
    if _armed and _fire(name):
        await asyncio.Event().wait()


def _fire(name: str) -> bool:
    """Acts on an armed point; true when the caller is to hang in its own way."""
    armed = _armed.get(name)
    if armed is None or not armed.due():
        return False
    if armed.action == "exit":
        os._exit(EXIT_CODE)
    if armed.action == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if armed.action == "raise":
        raise FailpointError(name)
    return True
