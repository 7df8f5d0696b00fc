"""What entries lack that have their label: those from before there were thumbnails, or from while
they were off, or labelled by a model that gives no embedding.

One job looks for a bounded number of them and enqueues their drawing, below everything else; it
finds nothing, by an index, once nothing is lacking. Drawing looks at the image again, keeps the
label, and tells nobody. The write applies only where the entry still has the marker, so a newer
upload's is never touched. What cannot be drawn is marked, and not tried again.
"""

from safelight.classification import repo
from safelight.classification.base import (
    ChildDied,
    Classifier,
    Drawing,
    ModelError,
    Undecodable,
)
from safelight.classification.embeddings import Embeddings
from safelight.classification.jobs import DRAW, DrawPayload
from safelight.classification.lifecycle import Drawn
from safelight.classification.originals import Originals, Superseded
from safelight.classification.quiet import Quiet
from safelight.infra.activity import Unit, Units
from safelight.infra.away import is_away
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict
from safelight.objects.store import DamagedObject, NoSuchObject, StoreUnavailable

_AT_A_TIME = 1000


class Backfill:
    def __init__(
        self,
        units: Units,
        originals: Originals,
        classifier: Classifier,
        embeddings: Embeddings,
        quiet: Quiet,
        *,
        thumbnails: bool,
    ) -> None:
        self._units = units
        self._originals = originals
        self._classifier = classifier
        self._embeddings = embeddings
        self._quiet = quiet
        self._thumbnails = thumbnails

    async def look(self) -> None:
        if await repo.enqueue_drawing(self._units.db, await self._wanted(), _AT_A_TIME):
            self._units.announce("", DRAW)

    async def draw(self, job: Job[DrawPayload]) -> Verdict:
        await self._quiet.wait()
        wanted = await self._wanted()
        try:
            drawing = await self._drawn(job, wanted)
        except (NoSuchObject, Superseded):
            return Done()
        except (Undecodable, ChildDied, DamagedObject):
            return await self._write(job, Drawing(), Drawn.NO_MORE)
        except (ModelError, StoreUnavailable) as error:
            if job.last_attempt and not is_away(error):
                return await self._write(job, Drawing(), Drawn.NO_MORE)
            return Retry(error)
        marks = Drawn.of(drawing)
        return await self._write(job, drawing, marks if marks & wanted == wanted else Drawn.NO_MORE)

    async def on_dead(self, unit: Unit, job: Job[DrawPayload], _: Failure) -> None:
        """It is not looked for again; a person who redrives the letter has it tried once more."""
        await repo.draw_no_more(unit, job.payload)

    async def _drawn(self, job: Job[DrawPayload], wanted: Drawn) -> Drawing:
        await self._classifier.open()
        key = (job.organization, job.payload.name, job.payload.idempotencyKey)
        async with self._originals.open(key) as original:
            await reach("classification.draw")
            drawing = await self._classifier.draw(
                original.source,
                thumbnail=Drawn.THUMBNAIL in wanted,
                embedding=Drawn.EMBEDDING in wanted,
            )
        await self._originals.check(original, drawing.digest)
        return drawing

    async def _write(self, job: Job[DrawPayload], drawing: Drawing, marks: Drawn) -> Verdict:
        mine = await repo.drawn(
            self._units.db,
            job,
            drawing,
            marks,
            self._embeddings.model,
            self._units.clock.now_ms(),
            embeds=await self._embeddings.kept(),
        )
        return job.ended(mine)

    async def _wanted(self) -> Drawn:
        embeds = Drawn.EMBEDDING if await self._embeddings.wanted() else Drawn.NOTHING
        return Drawn.COLOR | embeds | (Drawn.THUMBNAIL if self._thumbnails else Drawn.NOTHING)
