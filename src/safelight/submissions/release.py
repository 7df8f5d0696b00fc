"""When a submission is over, its objects go: what was pinned, and a rendition nobody may see."""

from dataclasses import dataclass

from safelight.infra.db import Database
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Job, Verdict
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.submissions import repo
from safelight.submissions.kinds import About
from safelight.submissions.lifecycle import TERMINAL, State
from safelight.submissions.pin import pinned_key
from safelight.submissions.publish import rendition_key


@dataclass(frozen=True, slots=True)
class Release:
    db: Database
    store: ObjectStore

    async def handle(self, job: Job[About]) -> Verdict:
        submission = await repo.find(self.db, job.payload.submissionId)
        if submission is None or submission.state not in TERMINAL:
            return Done()
        await self._drop(pinned_key(submission.id))
        if submission.state is not State.PUBLISHED:
            await self._drop(rendition_key(submission.id))
        return Done()

    async def _drop(self, key: str) -> None:
        try:
            await self.store.head(key)
        except NoSuchObject:
            return
        await reach("submissions.drop_object")
        await self.store.delete(key)
