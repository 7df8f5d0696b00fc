"""A worker's hands: jobs are claimed, run, lost, taken over and ended one at a time.

The statements are a worker's own, and nothing runs by itself: a test decides what happens between
any two steps.

    job = await hands.claim("library.project")
    outcome = await hands.run(job)      # the handler; its end is not written yet
    await hands.end_leases()            # somebody else may take it from here on
    await hands.write(job, outcome)     # refused, as it is for a worker that is late
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from safelight.infra.queue import repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Dead, Job, JobOutcome
from safelight.infra.queue.ledger import Ledger, outcome_of
from safelight.infra.queue.queue import Queue


class Hands:
    """Each stands for a process of its own, dead as soon as nobody uses it."""

    def __init__(self, queue: Queue, handlers: Iterable[Handler[Any]], owner: str = "") -> None:
        self.queue = queue
        self.handlers = {handler.kind.name: handler for handler in handlers}
        self.owner = owner or queue.owner

    async def claim(self, kind: str) -> Job[Any] | None:
        """One that is ready; None when none is."""
        queue, lease = self.queue, self.queue.lease
        rows = await repo.claim(queue.db, [(kind, 1, "")], queue.node, self.owner, lease)
        if not rows:  # or one that a worker would run by itself
            rows = await repo.claim_suspect(queue.db, [kind], queue.node, self.owner, lease)
        return Job.load(self.handlers[kind].kind, rows[0]) if rows else None

    async def run(self, job: Job[Any]) -> JobOutcome:
        """Its handler, and what becomes of the job by that; nothing of it is written."""
        if job.exhausted:
            return Dead(job.last_words)
        task = asyncio.ensure_future(self.handlers[job.kind.name].handle(job))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        return outcome_of(job, task, stopping=False)

    async def write(self, job: Job[Any], outcome: JobOutcome) -> None:
        """The end of a job, if it is still ours."""
        ledger = Ledger(self.queue.db, self.queue, self.handlers)
        if ledger.add(job, outcome):
            await ledger.write_outcomes()

    async def work(self, *kinds: str) -> int:
        """Claims, runs and ends what is ready of these kinds (of all, if none is named), and what
        that makes ready; how many."""
        done = 0
        while job := await self._any(kinds or tuple(self.handlers)):
            await self.write(job, await self.run(job))
            done += 1
        return done

    async def _any(self, kinds: Iterable[str]) -> Job[Any] | None:
        for kind in kinds:
            if job := await self.claim(kind):
                return job
        return None

    async def lose(self, kind: str) -> Job[Any] | None:
        """Claims a job and is never heard of again: the next one to look finds it."""
        job = await self.claim(kind)
        await self.end_leases()
        return job

    async def end_leases(self) -> None:
        """Whoever holds a job is late from now on, and it is ready for somebody else. Leases are on
        the database's clock, so time passes by moving the rows."""
        await self.queue.db.execute(
            "UPDATE jobs SET lease_until = now() - interval '1 second' WHERE status = 'running'"
        )
        await self.tend()

    async def hurry(self) -> None:
        """What waits for a later time is due now."""
        await self.queue.db.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
        await self.tend()

    async def tend(self) -> None:
        """Moves on what is due, as a worker's loop does."""
        await repo.tend(self.queue.db, list(self.handlers), self.queue.node, [])
