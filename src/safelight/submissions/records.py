"""What an organization knows already, as rules ask for it."""

from dataclasses import dataclass

from safelight.infra.db import Database
from safelight.submissions import repo
from safelight.submissions.looks import NEAR, Closeness, Look
from safelight.submissions.policies import repo as policies
from safelight.submissions.repo import Submission
from safelight.submissions.rules.rule import Match


@dataclass(frozen=True, slots=True)
class KnownPictures:
    db: Database

    async def blocked(self, submission: Submission, look: Look | None) -> Match | None:
        found = await policies.matching(
            self.db, submission.organization, submission.checksum, look, NEAR
        )
        return None if found is None else Match(found[0].id, found[1])

    async def published(
        self, submission: Submission, look: Look | None, closeness: Closeness
    ) -> Match | None:
        found = await repo.published_twin(self.db, submission, look, closeness)
        return None if found is None else Match(*found)
