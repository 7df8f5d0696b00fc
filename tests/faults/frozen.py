"""A process that stands still: it stops itself (SIGSTOP) right after the server has answered its Nth
statement, as if swapped out, suspended or paused with its machine. Its connections stay open and say
nothing.

    python frozen.py URL N       says `frozen` on its output, or `done` when it has no Nth statement
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import asyncpg

from safelight.infra import kv
from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.connecting import Limits
from safelight.infra.db import Database
from safelight.infra.history import Line
from safelight.infra.injected import SystemClock

IDLE_SECONDS = 1.0
STATEMENTS = ("execute", "fetch", "fetchrow", "fetchval")


async def journey(db: Database) -> None:
    """A unit as most are: changes a row, which is locked from then on, and tells of it."""
    units = Units(db, Bus(db, "frozen"), SystemClock())
    async with units.open("acme") as unit:
        await kv.put(unit.connection, "counter", 1, now=0)
        unit.tell(Line("image:1", "counted"))


def stand_still_after(number: int) -> None:
    answered = 0

    def counted(method: Any) -> Any:
        @wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal answered
            result = await method(*args, **kwargs)
            answered += 1
            if answered == number:
                os.write(1, b"frozen\n")
                os.kill(os.getpid(), signal.SIGSTOP)
            return result

        return call

    for name in STATEMENTS:
        setattr(asyncpg.Connection, name, counted(getattr(asyncpg.Connection, name)))


async def main(url: str, number: int) -> None:
    db = await Database.open(url, pool_size=1, limits=Limits(idle=IDLE_SECONDS))
    stand_still_after(number)
    await journey(db)
    os.write(1, b"done\n")


@contextmanager
def frozen(url: str, number: int) -> Iterator[str]:
    """A process that stands still by now, or is done; which of the two."""
    process = subprocess.Popen(
        [sys.executable, __file__, url, str(number)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
