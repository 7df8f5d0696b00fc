"""A worker as a program: `labourer.py URL BEHAVIOUR LEASE OWNER`. Ends on SIGTERM."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import SystemClock
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Backoff, Done, Job, JobKind, Nothing, Schedule, Verdict
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.worker import Worker


@dataclass(frozen=True, slots=True)
class Number:
    n: int


WORK = JobKind("test.work", payload=Number, limit=250, retry=Backoff(attempts=3, first=0.05))
TICK = JobKind("test.tick", payload=Nothing)


async def main(url: str, behaviour: str, lease: str, owner: str) -> None:
    db = await Database.open(url, pool_size=5)
    bus = Bus(db, owner)
    queue = Queue(
        db, bus, SystemClock(), owner=owner, node=owner, kinds=[WORK, TICK], lease=float(lease)
    )

    async def note(job: Job[Number]) -> None:
        values = (job.id, job.attempt, owner)
        await db.execute("INSERT INTO starts (job, attempt, owner) VALUES ($1, $2, $3)", *values)

    async def hold(job: Job[Number]) -> Verdict:
        await note(job)
        await asyncio.Event().wait()
        return Done()

    async def die(job: Job[Number]) -> Verdict:
        await note(job)
        os.kill(os.getpid(), signal.SIGKILL)
        return Done()

    async def work(job: Job[Number]) -> Verdict:
        return job.ended(
            await db.fetchval(
                """
                INSERT INTO effects (job, attempt, owner)
                SELECT $1, $3, $4 FROM job_finish($1, $2) AS mine WHERE mine RETURNING true
                """,
                job.id,
                job.claim,
                job.attempt,
                owner,
            )
        )

    async def tick(job: Job[Nothing]) -> Verdict:
        fired = await db.fetchval("SELECT created_at FROM jobs WHERE id = $1", job.id)
        await db.execute("INSERT INTO ticks (fired, owner) VALUES ($1, $2)", fired, owner)
        return Done()

    behaviours: dict[str, Callable[[Job[Number]], Awaitable[Verdict]]] = {
        "hold": hold, "die": die, "work": work,
    }  # fmt: skip
    await bus.start()
    worker = Worker(
        queue, [Handler(WORK, behaviours[behaviour]), Handler(TICK, tick)], [Schedule(TICK, 1)]
    )
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await worker.start()
    await db.execute("INSERT INTO ready (owner) VALUES ($1)", owner)
    await over.wait()
    await worker.stop(1)
    await bus.stop()
    await db.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
