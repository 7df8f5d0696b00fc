"""A source was deleted: what was submitted from it does not go on, or is not shown any more.

Only if it was that very source. The name of an upload can be used again, so an upload is told by
its marker: one that was replaced before the name was deleted outlives the delete.

Gap: replacing and deleting are told by events, which may arrive in another order. A replacement
among the last few thousand events is seen in any case.
"""

from dataclasses import dataclass

from safelight.infra.db import Connection, Database
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.infra.queue.queue import Queue
from safelight.objects.events import ObjectEvent
from safelight.objects.jobs import DeliverPayload
from safelight.objects.keys import split_key
from safelight.submissions import repo
from safelight.submissions.end import End
from safelight.submissions.kinds import SOURCE_GONE, Gone
from safelight.submissions.repo import Submission


@dataclass(frozen=True, slots=True)
class SourceGone:
    db: Database
    queue: Queue
    end: End

    async def on_upload_deleted(self, event: ObjectEvent, _: Job[DeliverPayload]) -> Verdict:
        """A reaction to object events, to stand before the library's."""
        organization, name = split_key(event.key)
        for submission in await repo.of_source(self.db, organization, "upload", name):
            await self._judge(submission, event)
        return Done()

    async def artifact_deleted(
        self, connection: Connection, organization: str, artifact_id: str
    ) -> None:
        """For the transaction that deletes an artifact: what follows is a job of its own."""
        gone = Gone("artifact", artifact_id)
        key = f"{organization}/{gone.kind}/{artifact_id}"
        await self.queue.enqueue(connection, SOURCE_GONE, gone, organization=organization, key=key)

    async def handle(self, job: Job[Gone]) -> Verdict:
        gone = job.payload
        for submission in await repo.of_source(self.db, job.organization, gone.kind, gone.sourceId):
            await self.end.source_gone(submission)
        return Done()

    async def _judge(self, submission: Submission, event: ObjectEvent) -> None:
        if not submission.source_current or submission.source_time >= event.event_time:
            return
        if await repo.was_replaced(self.db, submission, event.key, event.event_time, event.id):
            async with self.db.transaction() as connection:
                await reach("submissions.outlive")
                await repo.outlive(connection, submission.id)
        else:
            await self.end.source_gone(submission)
