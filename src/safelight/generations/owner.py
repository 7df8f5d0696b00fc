"""The owner of generations in flight: whatever happens to one passes through here.

Guarantees
- Each change is one transaction that locks the generation's row first, decides with decide.py, and
  writes tasks, artifact, library row, history, follow-up jobs and the end of the job that asked,
  all or nothing. No lock is held while anybody outside is waited for.
- Events for one generation happen one after another, whatever processes they reach.

Gap: what a change tells listeners in memory (wake-ups, live news) is lost if the process dies right
after the commit; the queue's poll and the reader's next look make up for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.artifacts.repo import Artifact
from safelight.generations.decide import Again, Change, End, NotMine
from safelight.generations.kinds import ALARM, STOP, WORK, Waking, Working
from safelight.generations.lifecycle import Generation
from safelight.infra import activity
from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import Clock
from safelight.infra.queue.jobs import Job, JobKind, LeaseLost
from safelight.infra.queue.queue import Queue

OVER = "generations"  # of the bus; the detail is the id of a generation that has ended

Decide = Callable[[Generation, int], Change]


class Owner:
    def __init__(self, db: Database, queue: Queue, clock: Clock) -> None:
        self.db = db
        self.queue = queue
        self.clock = clock

    async def change(
        self, generation_id: str, decide: Decide, job: Job[Any] | None = None
    ) -> Change | None:
        """None: there is no such generation in flight. A job that ends is ended here too."""
        async with self.db.transaction() as connection:
            change = await self.change_on(connection, generation_id, decide)
            if change is None:
                return None
            await self.write_end(connection, change, job)
        self.tell(change, job)
        return change

    async def change_on(
        self, connection: Connection, generation_id: str, decide: Decide
    ) -> Change | None:
        """All but the end: neither the job's nor, since it comes last, the history."""
        before = await repo.lock(connection, generation_id)
        if before is None:
            return None
        change = decide(before, self.clock.now_ms())
        await self.write(connection, before, change)
        return change

    async def write(
        self,
        connection: Connection,
        before: Generation,
        change: Change,
        artifact: Artifact | None = None,
    ) -> None:
        if isinstance(change.then, NotMine):
            raise LeaseLost
        if artifact is not None:
            await reach("generations.add_artifact")
            await library.add(connection, artifact)
        await reach("generations.save")
        await repo.save(connection, before, change.after)
        await self._follow_up(connection, change)
        if change.after.status.over and not before.status.over:
            await reach("generations.publish")
            await repo.publish(connection, change.after)
            await self.queue.cancel(connection, ALARM, change.after.id)

    async def write_end(self, connection: Connection, change: Change, job: Job[Any] | None) -> None:
        if job is not None and isinstance(change.then, End | Again):
            await reach("generations.end_job")
            if not await repo.end_job(connection, job):
                raise LeaseLost
            if isinstance(change.then, Again):
                await self._put_off(connection, job, change.then.seconds)
        await self.record(connection, change.after.organization, change.entries)

    async def record(
        self, connection: Connection, organization: str, lines: Sequence[Line]
    ) -> None:
        """The last statement of its transaction."""
        if lines:
            now = self.clock.now_ms()
            await reach("generations.record")
            await activity.append(connection, organization, now, *lines)

    def tell(self, change: Change, job: Job[Any] | None = None) -> None:
        """After the commit."""
        generation = change.after
        if change.entries:
            self.queue.bus.announce("activity", generation.organization)
        if change.work:
            self.queue.wake(WORK[generation.provider])
        if change.abandoned:
            self.queue.wake(STOP)
        if job is not None and isinstance(change.then, Again):
            self.queue.wake()
        if generation.status.over:
            self.queue.bus.announce(OVER, generation.id)

    async def _follow_up(self, connection: Connection, change: Change) -> None:
        generation = change.after
        for artifact_id in change.work:
            payload = Working(generation.id, artifact_id)
            kind = WORK[generation.provider]
            await self._run_now(connection, kind, payload, generation.organization)
        for artifact_id in change.abandoned:
            await self.queue.enqueue(
                connection,
                STOP,
                Working(generation.id, artifact_id),
                organization=generation.organization,
                key=artifact_id,
            )

    async def _run_now(
        self, connection: Connection, kind: JobKind[Working], payload: Working, organization: str
    ) -> None:
        """A job of this task that waits is moved; one that runs looks again before it ends."""
        key = payload.artifactId
        added = await self.queue.enqueue(
            connection, kind, payload, organization=organization, key=key
        )
        if added is None:
            await self.queue.reschedule(connection, kind, key, run_in=0)

    async def _put_off(self, connection: Connection, job: Job[Any], seconds: float) -> None:
        payload: Working | Waking = job.payload
        key = payload.artifactId if isinstance(payload, Working) else payload.generationId
        await self.queue.enqueue(
            connection, job.kind, payload, organization=job.organization, key=key, run_in=seconds
        )
