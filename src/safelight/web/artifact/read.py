"""What the pages of artifacts need, read from the features that know it."""

from collections.abc import Sequence
from dataclasses import dataclass

from safelight.approvals import repo as approvals
from safelight.approvals.lifecycle import Approval
from safelight.generations.artifacts import repo
from safelight.generations.artifacts.lists import repo as lists
from safelight.generations.lifecycle import Artifact
from safelight.http.paging import Cursors
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.history import Activity
from safelight.submissions import repo as submissions
from safelight.submissions.lifecycle import Submission
from safelight.web.artifact.shown import ArtifactFilter, ListedArtifact, listed
from safelight.web.image.read import ShownSubmission

PER_PAGE, TAGS, LINES = 60, 40, 100


@dataclass(frozen=True, slots=True)
class ArtifactReads:
    """Reads of one organization's artifacts. `originals`: there are no small pictures."""

    db: Database
    cursors: Cursors
    organization: str
    originals: bool

    async def page(
        self, wanted: ArtifactFilter, cursor: str | None
    ) -> tuple[list[ListedArtifact], str | None]:
        """Newest first, and the cursor of those that are older."""
        purpose = f"library:{self.organization}:{wanted.generation}:{wanted.tag}"
        key = self.cursors.read(purpose, cursor)
        before = (key[0], key[1]) if key else None
        found = await repo.page(
            self.db, self.organization, wanted.generation, wanted.tag, before, PER_PAGE
        )
        shown, is_more = found[:PER_PAGE], len(found) > PER_PAGE
        more = self.cursors.make(purpose, [shown[-1].created_at, shown[-1].id]) if is_more else None
        return await self.listed(shown, wanted), more

    async def listed(
        self, found: Sequence[Artifact], wanted: ArtifactFilter
    ) -> list[ListedArtifact]:
        ids = {one.generation_id for one in found}
        words = await lists.prompts(self.db, self.organization, sorted(ids))
        return [
            listed(one, words.get(one.generation_id, ""), wanted, originals=self.originals)
            for one in found
        ]

    async def tags(self) -> dict[str, int]:
        return await lists.tags_in_use(self.db, self.organization, TAGS)

    async def find(self, artifact_id: str) -> Artifact | None:
        found = await repo.find(self.db, artifact_id)
        return found if found and found.organization == self.organization else None

    async def was_there(self, artifact_id: str) -> bool:
        return await repo.deleted_from(self.db, artifact_id) == self.organization

    async def neighbours(
        self, artifact: Artifact, wanted: ArtifactFilter
    ) -> tuple[ListedArtifact | None, ListedArtifact | None]:
        """The newer and the older one of the list that was come from."""
        place, chosen = (artifact.created_at, artifact.id), (wanted.generation, wanted.tag)
        newer = await lists.newer(self.db, self.organization, *chosen, place)
        older = await repo.page(self.db, self.organization, *chosen, place, 1)
        return await self._maybe(newer, wanted), await self._maybe(next(iter(older), None), wanted)

    async def _maybe(
        self, artifact: Artifact | None, wanted: ArtifactFilter
    ) -> ListedArtifact | None:
        return (await self.listed([artifact], wanted))[0] if artifact else None

    async def lines(self, artifact_id: str, before: int | None) -> tuple[list[Activity], bool]:
        """Newest first, and whether there are more."""
        rows = await activity.latest(
            self.db, self.organization, [f"artifact:{artifact_id}"], before=before, limit=LINES
        )
        return rows[:LINES], len(rows) > LINES

    async def submissions(
        self, artifact: Artifact, lines: Sequence[Activity]
    ) -> list[ShownSubmission]:
        """Newest first. Its history names those that are over."""
        living = await self.living(artifact.id)
        known = {one.id: one for one in living}
        told = [line.data.get("id") for line in lines if line.type == "submission_state_changed"]
        for one in dict.fromkeys(told):
            if isinstance(one, str) and one not in known:
                found = await submissions.find(self.db, one)
                if found and found.organization == self.organization:
                    known[one] = found
        rows = sorted(known.values(), key=lambda one: (one.created_at, one.id), reverse=True)
        return [ShownSubmission(one, await self._approval(one)) for one in rows]

    async def living(self, artifact_id: str) -> list[Submission]:
        """Neither rejected nor taken back."""
        return await submissions.of_source(self.db, self.organization, "artifact", artifact_id)

    async def _approval(self, submission: Submission) -> Approval | None:
        if submission.approval_id is None:
            return None
        return await approvals.find(self.db, self.organization, submission.approval_id)
