"""How a child gives everything up before it meets the first byte from outside.

Each step is tried; what the system does not offer is left out and told. `offered` guesses from
outside what `lock` will find, without starting anything, until a first child has told.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from safelight.sandbox import seccomp
from safelight.sandbox.limits import SandboxLimits, no_processes

# Nobody's: between those that systems give out and `nobody`. The latter where a user namespace maps
# no other; whoever shares it is still out of reach behind the filter.
_USERS = (65_530, 65_534)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAP_SETGID, _CAP_SETUID = 6, 7
_STANDARD = 3  # descriptors every process has; ours lead to /dev/null


@dataclass(frozen=True, slots=True)
class Protections:
    """Which of them are in force."""

    system_calls: bool
    own_user: bool
    no_new_privileges: bool
    not_readable: bool
    dies_with_us: bool
    memory_limit: bool

    @property
    def missing(self) -> list[str]:
        """In words, for people."""
        return [_WORDS[name] for name, there in asdict(self).items() if not there]


_WORDS = {
    "system_calls": "a filter of system calls (the kernel has no seccomp)",
    "own_user": "a user of its own (only root can give it one)",
    "no_new_privileges": "no new privileges",
    "not_readable": "memory that others cannot read",
    "dies_with_us": "an end together with its server",
    "memory_limit": "a limit of memory",
}


def offered() -> Protections:
    linux = sys.platform == "linux"
    return Protections(
        system_calls=linux and seccomp.available(),
        own_user=os.geteuid() == 0 and _may_change_user(),
        no_new_privileges=linux,
        not_readable=linux,
        dies_with_us=linux,
        memory_limit=linux,
    )


def lock(limits: SandboxLimits, parent: int, keep: int, mapped_bytes: int) -> Protections:
    """`keep` and what lies below it stays open; one descriptor more can be received."""
    os.closerange(keep + 1, 4096)
    memory = limits.apply(mapped_bytes, keep + 2)
    own_user = any(_become(user) for user in _USERS) if os.geteuid() == 0 else False
    quiet = _prctl(_PR_SET_DUMPABLE, 0)
    together = _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # after the user: a change clears it
    if os.getppid() != parent:
        os._exit(0)  # it died before it could be heard of
    no_new = _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    filtered = no_new and seccomp.install()
    if not filtered:
        no_processes()
    return Protections(filtered, own_user, no_new, quiet, together, memory)


def _become(user: int) -> bool:
    """For all threads: the C library sees to that."""
    with suppress(OSError):
        os.setgroups([])
    try:
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:
        return False
    return True


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def _may_change_user() -> bool:
    try:
        status = Path("/proc/self/status").read_text()
        users, groups = (Path(f"/proc/self/{kind}_map").read_text() for kind in ("uid", "gid"))
    except OSError:
        return True
    held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    may = all(int(held, 16) >> right & 1 for right in (_CAP_SETGID, _CAP_SETUID))
    return may and any(_maps(users, user) and _maps(groups, user) for user in _USERS)


def _maps(ranges: str, number: int) -> bool:
    """Whether a namespace knows this user or group: first here, first outside, how many."""
    rows = (line.split() for line in ranges.splitlines())
    return any(int(first) <= number < int(first) + int(count) for first, _, count in rows)
