"""A worker for submissions as a program: `labourer.py URL DIRECTORY LEASE FAILPOINTS`. Says `ready`,
and ends on SIGTERM."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from safelight.approvals import jobs as approvals
from safelight.classification.classifiers import build
from safelight.infra import failpoints
from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import RandomIds, SystemClock
from safelight.infra.metrics import Metrics
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker
from safelight.objects.blobs import Blobs
from safelight.objects.local import LocalStore
from safelight.sandbox.protocol import Rendition
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import load
from safelight.submissions import jobs as submissions
from safelight.submissions.findings import Label, Opinion
from safelight.submissions.lifecycle import Submission
from safelight.submissions.services import open_submissions

KINDS = (*submissions.KINDS, *approvals.KINDS)


class Harmless:
    """Models that find nothing wrong with anything."""

    async def safety(self, _: Rendition) -> float:
        return 0.01

    async def label(self, _: Submission, __: Rendition) -> Label:
        return Label("TABBY", 0.9, "fixed")

    async def opinion(self, _: Submission, __: Rendition) -> Opinion | None:
        return None


async def main(url: str, directory: str, lease: str, armed: str) -> None:
    db = await Database.open(url, pool_size=5)
    owner, clock, ids = f"labourer-{os.getpid()}", SystemClock(), RandomIds()
    bus, settings = Bus(db, owner), load({"secret_key": "k" * 32})
    queue = Queue(db, bus, clock, owner=owner, node="here", kinds=KINDS, lease=float(lease))
    store = LocalStore(db, Blobs(Path(directory), ids), clock, ids)
    base = Base(settings, clock, ids, Metrics(), db, bus, queue, queue.units)
    sandbox = Sandbox()
    opened = open_submissions(base, store, sandbox, build(settings, clock, sandbox), Harmless())
    worker = Worker(queue, opened.handlers)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await bus.start()
    failpoints.arm_all(armed)
    await worker.start()
    print("ready", flush=True)
    await over.wait()
    await worker.stop(1)
    await bus.stop()
    await sandbox.close()
    await db.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
