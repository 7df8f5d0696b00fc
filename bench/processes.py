"""What each process of a tree has used so far, from /proc: CPU, page faults, context switches.

A process that ended leaves its CPU and its faults to its parent, and its switches to nobody.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_TICK = os.sysconf("SC_CLK_TCK")
_BACKEND = "backends (one per connection of ours)"


@dataclass(frozen=True)
class Usage:
    user: float = 0.0
    system: float = 0.0
    faults: int = 0
    waits: int = 0  # gave the processor up by itself
    pushed: int = 0  # was taken off it

    @property
    def cpu(self) -> float:
        return self.user + self.system

    def __add__(self, other: "Usage") -> "Usage":
        return self._with(other, 1)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._with(other, -1)

    def _with(self, other: "Usage", sign: int) -> "Usage":
        return Usage(
            self.user + sign * other.user,
            self.system + sign * other.system,
            self.faults + sign * other.faults,
            self.waits + sign * other.waits,
            self.pushed + sign * other.pushed,
        )


Usages = dict[str, Usage]  # by role


def used(roots: Iterable[int], names: dict[int, str] | None = None) -> Usages:
    """Of these processes and all below them, by role."""
    found: Usages = {}
    for root in roots:
        for process in _tree(root):
            with suppress(OSError, psutil.Error):
                role = _role(process, names or {})
                found[role] = found.get(role, Usage()) + _usage(process.pid)
    return found


def between(before: Usages, after: Usages) -> Usages:
    return {role: usage - before.get(role, Usage()) for role, usage in after.items()}


def total(usages: Usages, *, postgres: bool | None = None) -> Usage:
    chosen = [
        usage for role, usage in usages.items() if postgres in (None, role.startswith("PostgreSQL"))
    ]
    return sum(chosen, Usage())


def _tree(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def _role(process: psutil.Process, names: dict[int, str]) -> str:
    if process.pid in names:
        return names[process.pid]
    words = " ".join(process.cmdline())
    if process.name() == "postgres":
        return f"PostgreSQL: {_postgres(words)}"
    if "safelight.sandbox" in words:
        return "children that decode and infer"
    if "redis" in process.name():
        return "Redis"
    return "helpers" if "multiprocessing" in words else "server"


def _postgres(title: str) -> str:
    """`postgres: safelight: checkpointer`, `postgres: safelight: user database [local] idle`."""
    if not title.startswith("postgres: "):
        return "postmaster, and backends that ended"
    rest = title.removeprefix("postgres: ").removeprefix("safelight: ").strip()
    known = ("checkpointer", "background writer", "walwriter", "autovacuum", "logical replication")
    return next((word for word in known if rest.startswith(word)), _BACKEND)


def _usage(pid: int) -> Usage:
    """Faults and CPU of the process and of the children it has buried; switches of its threads."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    waits = pushed = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has just ended
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    waits += int(line.split()[1])
                elif line.startswith("nonvoluntary_ctxt_switches"):
                    pushed += int(line.split()[1])
    user, system = (int(words[11]) + int(words[13])) / _TICK, (int(words[12]) + int(words[14])) / _TICK
    return Usage(user, system, int(words[7]) + int(words[8]), waits, pushed)
