"""What each process of a tree has used so far, from /proc: CPU, page faults, context switches.

A process that ended leaves its CPU and its faults to its parent, and its switches to nobody.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.measure import is_postgres, tree

_TICK = os.sysconf("SC_CLK_TCK")
_BACKEND = "backends"


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
SERVERS = ("server", "worker")


def used(roots: Mapping[int, str]) -> Usages:
    """Of these processes and all below them, by role: the name that is given, or what shows."""
    found: Usages = {}
    for root, name in roots.items():
        for process in tree(root):
            with suppress(OSError, psutil.Error):
                role = name if name and not is_postgres(process) else _role(process)
                for part, usage in _usage(process.pid, role).items():
                    found[part] = found.get(part, Usage()) + usage
    return found


def between(before: Usages, after: Usages) -> Usages:
    return {role: usage - before.get(role, Usage()) for role, usage in after.items()}


def total(usages: Usages, *, postgres: bool | None = None) -> Usage:
    chosen = [
        usage for role, usage in usages.items() if postgres in (None, role.startswith("PostgreSQL"))
    ]
    return sum(chosen, Usage())


def _role(process: psutil.Process) -> str:
    words = " ".join(process.cmdline())
    if is_postgres(process):
        return f"PostgreSQL: {_postgres(words)}"
    if "safelight.sandbox" in words:
        return "children that decode and infer"
    return "worker" if words.endswith(" worker") or " worker " in words else "server"


def _postgres(title: str) -> str:
    """`postgres: safelight: checkpointer`, `postgres: safelight: user database [local] idle`."""
    if not title.startswith("postgres: "):
        return "postmaster, and backends that ended"
    rest = title.removeprefix("postgres: ").removeprefix("safelight: ").strip()
    known = ("checkpointer", "background writer", "walwriter", "autovacuum", "logical replication")
    return next((word for word in known if rest.startswith(word)), _BACKEND)


def _usage(pid: int, role: str) -> Usages:
    """The event loop's thread apart from the others, where a process is a server. What has ended,
    threads and children, is counted with the others."""
    whole = _stat(Path(f"/proc/{pid}/stat"), buried=True) + _switches(Path(f"/proc/{pid}/task"))
    if role not in SERVERS:
        return {role: whole}
    task = Path(f"/proc/{pid}/task/{pid}")
    loop = _stat(task / "stat") + _switched(task)
    return {f"{role}: event loop": loop, f"{role}: threads (hash, write, fsync)": whole - loop}


def _stat(file: Path, *, buried: bool = False) -> Usage:
    words = [int(word) for word in file.read_text().rpartition(")")[2].split()[7:15]]
    faults, faults_buried, _, _, user, system, user_buried, system_buried = words
    if not buried:
        return Usage(user / _TICK, system / _TICK, faults)
    return Usage(
        (user + user_buried) / _TICK, (system + system_buried) / _TICK, faults + faults_buried
    )


def _switches(tasks: Path) -> Usage:
    whole = Usage()
    for task in tasks.iterdir():
        with suppress(OSError):  # it has just ended
            whole += _switched(task)
    return whole


def _switched(task: Path) -> Usage:
    lines = (task / "status").read_text().splitlines()
    counts = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return Usage(
        waits=int(counts["voluntary_ctxt_switches"]),
        pushed=int(counts["nonvoluntary_ctxt_switches"]),
    )
