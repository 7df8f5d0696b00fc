"""A process that does one thing to a store and may die on the way: life.py URL ROOT WHAT POINTS."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

CONTENT = b"the same bytes, wherever they come from"
KEY = "acme/cat.jpg"
GRACE_MS = -60_000  # what was released a moment ago is old enough


def start(url: str, root: Path, what: str, points: str) -> "subprocess.Popen[bytes]":
    tests = str(Path(__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, __file__, url, str(root), what, points],
        env={**os.environ, "PYTHONPATH": tests},
    )


async def live(url: str, root: Path, what: str) -> None:
    from ingest.offloading import Yard
    from objects.stores import Local, stream
    from safelight.infra.db import Database
    from safelight.infra.metrics import Metrics
    from safelight.objects.store import Facts
    from safelight.objects.upkeep import Collect, Scrub

    db = await Database.open(url, pool_size=5)
    if what == "offload":
        async with Yard(db, root, lease=0.5).working():
            await asyncio.Event().wait()
    local = Local(db, root / "blobs")
    if what == "put":
        await local.store.put(KEY, stream(CONTENT), Facts("image/jpeg"))
    elif what == "delete":
        await local.store.delete(KEY)
    elif what == "scrub":
        await Scrub(local.units, local.blobs, Metrics()).run()
    else:
        await Collect(local.units, local.blobs, Metrics(), grace_ms=GRACE_MS).run()
    await local.store.close()
    await db.close()


if __name__ == "__main__":
    from safelight.infra import failpoints

    failpoints.arm_all(sys.argv[4])
    signal.alarm(40)  # nobody waits for a test that forgot this
    asyncio.run(live(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
