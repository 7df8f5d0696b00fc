"""Groups of entries that look alike: copies, other sizes, other crops of one picture.

Nothing of it is on the way of an upload. Once a minute a job reads in the history what was labelled
since, and compares each with those that share a label, or one of its five best, and came soonest
before or after it: some thousand at most, whatever there is (decision 38). It works only while no
run does, and stops after a while. Who dies in it has lost a batch, which is compared again.
"""

from dataclasses import dataclass

from safelight.classification.embeddings import Embeddings
from safelight.classification.quiet import Quiet
from safelight.classification.similar import repo
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.library import repo as library
from safelight.library.entry import Entry

LEAST = 0.9  # of similarity
MOST_SHOWN = 50  # of a group
_BATCH = 20
_BATCHES = 250  # at a time
_TOLD = ["classification_updated"]


@dataclass(frozen=True, slots=True)
class Group:
    """`entries` are the first of them by name, each with how like its nearest it is."""

    number: int
    count: int
    entries: tuple[tuple[Entry, float], ...]

    @property
    def identical(self) -> bool:
        """To the byte."""
        checksums = {entry.checksum for entry, _ in self.entries}
        return len(checksums) == 1 and None not in checksums


class Twins:
    def __init__(self, db: Database, embeddings: Embeddings, quiet: Quiet) -> None:
        self._db = db
        self._embeddings = embeddings
        self._quiet = quiet

    async def compare(self) -> None:
        known, newest = await repo.known(self._db), await feed.newest(self._db)
        batches = _BATCHES
        for organization, end in newest.items():
            after: int | None = known.get(organization, 0)
            while after is not None and after < end and batches:
                after = await self._batch(organization, after, end)
                batches -= 1

    async def _batch(self, organization: str, after: int, end: int) -> int | None:
        """The seq that was reached; None: the rest has to wait."""
        await self._quiet.wait()
        lines = await feed.lines(self._db, organization, after=after, limit=_BATCH, types=_TOLD)
        labelled = [
            {"name": line.data["name"], "marker": line.data["idempotencyKey"], "seq": line.seq}
            for line in lines
        ]
        end = lines[-1].seq if len(lines) == _BATCH else end
        embeds = await self._embeddings.wanted()
        reached = await repo.compare(
            self._db, organization, labelled, end, embeds=embeds, least=LEAST
        )
        return reached if reached >= end else None

    async def page(self, organization: str, before: int | None, limit: int) -> list[Group]:
        """The last found first; one more than asked tells that there are more."""
        found = await repo.groups(self._db, organization, before, limit + 1, MOST_SHOWN)
        entries = await library.of_markers(
            self._db,
            organization,
            [(name, marker) for _, _, members in found for name, marker, _ in members],
        )
        return [
            Group(
                number,
                count,
                tuple((entries[name], like) for name, _, like in members if name in entries),
            )
            for number, count, members in found
        ]
