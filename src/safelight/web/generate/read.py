"""What the pages of generations need, read from the features that know it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from safelight.errors import NotFound
from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.artifacts.lists import repo as lists
from safelight.generations.lifecycle import Artifact, FinishedGeneration, Generation, subject
from safelight.http.paging import Cursors
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.history import Activity
from safelight.quotas.lifecycle import Meter
from safelight.quotas.repo import quotas
from safelight.web.gauges import Gauge, gauge
from safelight.web.generate.shown import GenerationBand, band, dollars

BANDS = 12
LINES = 100
_MONTH_MS = 30 * 86_400_000

AnyGeneration = Generation | FinishedGeneration


@dataclass(frozen=True, slots=True)
class Generating:
    """Reads of one organization's generations. `originals`: there are no small pictures."""

    db: Database
    cursors: Cursors
    organization: str
    originals: bool

    async def page(self, cursor: str | None) -> tuple[list[GenerationBand], str | None]:
        """Newest first, whether they are over or not, and the cursor of those that are older."""
        purpose = f"generate:{self.organization}"
        key = self.cursors.read(purpose, cursor)
        before = (key[0], key[1]) if key else None
        # In this order: one that ends in between is found twice, and not missed.
        active = await repo.page(self.db, self.organization, None, before, BANDS)
        done = await library.page_finished(self.db, self.organization, None, None, before, BANDS)
        both: list[AnyGeneration] = [*active, *done]
        found = {one.id: one for one in both}
        rows = sorted(found.values(), key=lambda one: (one.created_at, one.id), reverse=True)
        shown, last = rows[:BANDS], rows[BANDS - 1 : BANDS]
        is_more = len(rows) > BANDS
        more = self.cursors.make(purpose, [last[0].created_at, last[0].id]) if is_more else None
        return await self._bands(shown), more

    async def one(self, generation_id: str) -> AnyGeneration:
        """Raises `NotFound`, also for somebody else's."""
        active = await repo.find(self.db, generation_id)
        found: AnyGeneration | None = active
        if active is None or active.status.over:
            found = await library.find_finished(self.db, generation_id)
        if found is None or found.organization != self.organization:
            raise NotFound
        return found

    async def band(self, found: AnyGeneration) -> GenerationBand:
        (made,) = await self._bands([found])
        return made

    async def artifact(self, artifact_id: str) -> Artifact:
        found = await library.find(self.db, artifact_id)
        if found is None or found.organization != self.organization:
            raise NotFound
        return found

    async def lines(self, generation_id: str, before: int | None) -> tuple[list[Activity], bool]:
        """Newest first, and whether there are more."""
        rows = await activity.latest(
            self.db, self.organization, [subject(generation_id)], before=before, limit=LINES
        )
        return rows[:LINES], len(rows) > LINES

    async def who(self, generation_id: str) -> str | None:
        """Whoever asked for it, while its history tells."""
        told = await activity.told(
            self.db, self.organization, subject(generation_id), "generation_started"
        )
        names = (facts.get("actor", {}).get("name") for facts in told)
        return next((name for name in names if isinstance(name, str)), None)

    async def left(self, now: int) -> Gauge | None:
        """Of what may be generated today; None: there is no limit."""
        found = await quotas(self.db, self.organization, now)
        quota = next((one for one in found if one.meter is Meter.GENERATIONS), None)
        return gauge(quota) if quota and quota.most is not None else None

    async def spent(self, now: int) -> str | None:
        """In thirty days, where vendors tell what they cost."""
        found = await library.spending(self.db, self.organization, now - _MONTH_MS, now + 1)
        return dollars(sum(one.cost for one in found))

    async def _bands(self, found: Sequence[AnyGeneration]) -> list[GenerationBand]:
        ids = [one.id for one in found]
        made: dict[str, list[Artifact]] = defaultdict(list)
        for artifact in await lists.of_generations(self.db, self.organization, ids):
            made[artifact.generation_id].append(artifact)
        return [
            band(
                self.organization,
                one,
                made[one.id],
                await self.who(one.id),
                originals=self.originals,
            )
            for one in found
        ]
