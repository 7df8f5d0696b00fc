"""Which system calls a locked child may make: a filter in the kernel's own small language (BPF).

Written by hand and handed over with one call, since the library for it (libseccomp) would have to
be installed. What is not listed fails with EPERM, so that code which only asks goes on without.

Guarantees where `install` says True: nothing can be opened, connected, started, traced or signalled
but the child itself, no page becomes executable, and the filter cannot be taken off; it holds for
every thread there is and will be.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator
from typing import Final

# By name, on x86_64 and on aarch64; None where the machine does not have it. The busy ones first.
_CALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    "futex": (202, 98), "madvise": (28, 233), "munmap": (11, 215), "brk": (12, 214),
    "mremap": (25, 216), "recvmsg": (47, 212), "recvfrom": (45, 207), "sendto": (44, 206),
    "pread64": (17, 67), "read": (0, 63), "write": (1, 64), "close": (3, 57), "lseek": (8, 62),
    "setitimer": (38, 103), "poll": (7, None), "ppoll": (271, 73),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None),
    "getrandom": (318, 278), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getcpu": (309, 168),
    "getcwd": (79, 17),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "membarrier": (324, 283),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "set_tid_address": (218, 96),
    "set_robust_list": (273, 99), "rseq": (334, 293), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_MMAP, _MPROTECT, _CLONE, _CLONE3 = (9, 222), (10, 226), (56, 220), (435, 435)
_KILL, _TGKILL, _PRCTL = (62, 129), (234, 131), (157, 167)
_SECCOMP: Final = (317, 277)
_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32: Final = 0x40000000  # another numbering on x86_64, by which a list could be passed by

_PROT_EXEC, _CLONE_THREAD = 0x4, 0x10000
_PR_SET_NAME, _PR_SET_VMA = 15, 0x53564D41  # names of threads and of memory

_LOAD, _EQUAL, _ATLEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENY, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
_SET_MODE_FILTER, _GET_ACTION_AVAIL, _FLAG_TSYNC = 1, 2, 1

_libc = ctypes.CDLL(None, use_errno=True)


def available() -> bool:
    """Whether this kernel takes filters, and this machine's numbers are known."""
    found = _MACHINES.get(platform.machine())
    if found is None:
        return False
    action = ctypes.c_uint32(_ERRNO)
    return bool(_libc.syscall(_SECCOMP[found[0]], _GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0)


def install() -> bool:
    """For good, and for all threads. `no_new_privs` has to be set."""
    found = _MACHINES.get(platform.machine())
    if found is None:
        return False
    code = b"".join(program(*found, os.getpid()))
    rules = ctypes.create_string_buffer(code, len(code))
    handed = ctypes.create_string_buffer(struct.pack("HL", len(code) // 8, ctypes.addressof(rules)))
    done = _libc.syscall(_SECCOMP[found[0]], _SET_MODE_FILTER, _FLAG_TSYNC, handed)
    return bool(done == 0)


def program(column: int, architecture: int, pid: int) -> Iterator[bytes]:
    yield from (_load(_ARCH_AT), _jump(_EQUAL, architecture, 1, 0), _answer(_KILL_PROCESS))
    yield from (_load(_NUMBER_AT), _jump(_ATLEAST, _X32, 0, 1), _answer(_KILL_PROCESS))
    for numbers in _CALLS.values():
        if (number := numbers[column]) is not None:
            yield from _if_called(number, [_answer(_ALLOW)])
    for numbers in (_MMAP, _MPROTECT):
        yield from _if_called(numbers[column], _unless_bit(2, _PROT_EXEC, _DENY, _ALLOW))
    yield from _if_called(_CLONE[column], _unless_bit(0, _CLONE_THREAD, _ALLOW, _DENY))
    yield from _if_called(_CLONE3[column], [_answer(_UNKNOWN)])  # its flags cannot be looked at
    for numbers in (_KILL, _TGKILL):  # a library that gives up signals itself
        yield from _if_called(numbers[column], _if_first_is(pid))
    yield from _if_called(_PRCTL[column], _if_first_is(_PR_SET_NAME, _PR_SET_VMA))
    yield _answer(_DENY)


def _if_called(number: int, then: list[bytes]) -> list[bytes]:
    return [_jump(_EQUAL, number, 0, len(then)), *then]


def _unless_bit(argument: int, bit: int, with_it: int, without: int) -> list[bytes]:
    look = [_load(_ARGUMENTS_AT + 8 * argument), _jump(_ANY_BIT, bit, 0, 1)]
    return [*look, _answer(with_it), _answer(without)]


def _if_first_is(*values: int) -> list[bytes]:
    look = [_load(_ARGUMENTS_AT)]
    for value in values:
        look += [_jump(_EQUAL, value, 0, 1), _answer(_ALLOW)]
    return [*look, _answer(_DENY)]


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", _LOAD, 0, 0, offset)


def _jump(how: int, value: int, hit: int, miss: int) -> bytes:
    return struct.pack("HBBI", how, hit, miss, value)


def _answer(action: int) -> bytes:
    return struct.pack("HBBI", _RETURN, 0, 0, action)
