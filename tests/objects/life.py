"""A process that does one thing to a store and may die on the way."""

import asyncio
from pathlib import Path

from ingest.offloading import Yard
from nursery import Child, bear
from objects.stores import Local, stream
from safelight.infra.db import Database
from safelight.infra.metrics import Metrics
from safelight.objects.store import Facts
from safelight.objects.upkeep import Collect, Scrub

CONTENT = b"the same bytes, wherever they come from"
KEY = "acme/cat.jpg"
GRACE_MS = -60_000  # what was released a moment ago is old enough


def start(url: str, root: Path, what: str, points: str) -> Child:
    return bear("objects.life:live", url, str(root), what, points=points)


async def live(url: str, directory: str, what: str) -> None:
    root = Path(directory)
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
