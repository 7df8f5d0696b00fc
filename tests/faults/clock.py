"""A clock that is stepped or wrong, for one process: what the kernel says, and an offset.

    shim = Shim(directory)                       # compiles it once; NoCompiler where there is none
    clock = shim.clock("server")
    subprocess.Popen(…, env={**os.environ, **clock.environment})
    clock.shift(-60)                             # from now on, and for whoever runs with it

Only what tells the time of day is wrong. The monotonic clock goes on as it does on a real machine
whose time is set.
"""

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *offset;  /* nanoseconds */

__attribute__((constructor)) static void find_offset(void) {
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) offset = page;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *when) {
    int failed = syscall(SYS_clock_gettime, id, when);
    if (failed || !offset || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
    long long now = when->tv_sec * 1000000000LL + when->tv_nsec + *offset;
    when->tv_sec = now / 1000000000LL;
    when->tv_nsec = now % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *when, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (!failed && when) *when = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *when) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (when) *when = now.tv_sec;
    return now.tv_sec;
}
"""


class NoCompiler(Exception):
    """This machine has no `cc`."""


@dataclass(frozen=True)
class WrongClock:
    library: Path
    offset: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "CLOCK_OFFSET": str(self.offset)}

    def shift(self, seconds: float) -> None:
        """By how much it is wrong from now on. In place: whoever runs has the file mapped."""
        with self.offset.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))


class Shim:
    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise NoCompiler
        self._library = directory / "clock.so"
        options = ["-shared", "-fPIC", "-O2", "-o", str(self._library), "-x", "c", "-"]
        subprocess.run([compiler, *options], input=_SOURCE.encode(), check=True)
        self._library.chmod(0o755)

    def clock(self, name: str) -> WrongClock:
        offset = self._library.with_name(f"{name}.offset")
        offset.write_bytes(struct.pack("q", 0))
        os.chmod(offset, 0o644)  # noqa: PTH101 - PostgreSQL runs as another user
        return WrongClock(self._library, offset)
