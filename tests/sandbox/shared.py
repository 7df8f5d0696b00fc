"""Children for tests in this process: started once for each kit, and used by one test after another.
They end with the process."""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import psutil

from safelight.sandbox.children import Child, Kit
from safelight.sandbox.sandbox import Sandbox

_IDLE: defaultdict[Kit, list[Child]] = defaultdict(list)


def shared_sandbox() -> Sandbox:
    """Of the caller's event loop, and not to be closed."""
    made = Sandbox()
    made._idle = _IDLE
    return made


def living(kit: str, parent: int | None = None) -> list[psutil.Process]:
    """A process's children of a kit, ours where none is named: others of its children are other
    tests', or PostgreSQL."""
    found = []
    for child in psutil.Process(parent).children():
        with suppress(psutil.NoSuchProcess):
            ours = any("safelight.sandbox.child" in part for part in child.cmdline())
            if ours and any(f'"{kit}"' in part for part in child.cmdline()):
                found.append(child)
    return found


def is_locked(pid: int) -> bool:
    """It has loaded its kit and given everything up: what it does from here on is a task."""
    try:
        return "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()
    except OSError as error:
        raise psutil.NoSuchProcess(pid) from error
