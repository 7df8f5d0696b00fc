"""A worker as a program: `labourer.py URL BEHAVIOUR LEASE OWNER`. Ends on SIGTERM."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

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


Handle = Callable[[Job[Number]], Awaitable[Verdict]]


@dataclass
class Labourer:
    """What its jobs do, each leaving a trace in a table."""

    db: Database
    owner: str

    def behaviour(self, name: str) -> Handle:
        return {"hold": self.hold, "poisoned": self.poisoned, "work": self.work}[name]

    async def hold(self, job: Job[Number]) -> Verdict:
        await self._note(job)
        await asyncio.Event().wait()
        return Done()

    async def poisoned(self, job: Job[Number]) -> Verdict:
        """The first job kills its process, once all that are in hand have begun; the others run for
        ever, until they are suspected of it."""
        await self._note(job)
        if job.payload.n == 1:
            while await self.db.fetchval(
                "SELECT EXISTS (SELECT FROM jobs WHERE owner = $1 AND NOT EXISTS "
                "(SELECT FROM starts WHERE starts.job = jobs.id AND starts.owner = $1))",
                self.owner,
            ):
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        if not job.suspect:
            await asyncio.Event().wait()
        return await self.work(job)

    async def work(self, job: Job[Number]) -> Verdict:
        return job.ended(
            await self.db.fetchval(
                """
                INSERT INTO effects (job, deaths, owner)
                SELECT $1, $3, $4 FROM job_finish($1, $2) AS mine WHERE mine RETURNING true
                """,
                job.id,
                job.claim,
                job.deaths,
                self.owner,
            )
        )

    async def tick(self, job: Job[Nothing]) -> Verdict:
        fired = await self.db.fetchval("SELECT created_at FROM jobs WHERE id = $1", job.id)
        await self.db.execute("INSERT INTO ticks (fired, owner) VALUES ($1, $2)", fired, self.owner)
        return Done()

    async def _note(self, job: Job[Number]) -> None:
        values = (job.id, job.deaths, self.owner)
        await self.db.execute(
            "INSERT INTO starts (job, deaths, owner) VALUES ($1, $2, $3)", *values
        )


async def main(url: str, behaviour: str, lease: str, owner: str) -> None:
    db = await Database.open(url, pool_size=5)
    bus = Bus(db, owner)
    queue = Queue(
        db, bus, SystemClock(), owner=owner, node=owner, kinds=[WORK, TICK], lease=float(lease)
    )
    labourer = Labourer(db, owner)
    await bus.start()
    handlers: list[Handler[Any]] = [
        Handler(WORK, labourer.behaviour(behaviour)), Handler(TICK, labourer.tick),
    ]  # fmt: skip
    worker = Worker(queue, handlers, [Schedule(TICK, 1)], grace=0.2, quiet=0)
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
