"""What looks like an image: every embedding of the organization is compared with its own. That
takes some 40 ms for 50,000 of them (decision 38), and no index that uploads would have to keep."""

from safelight.classification.embeddings import Embeddings
from safelight.classification.similar import repo
from safelight.errors import NotFound, NotReady, Unavailable
from safelight.infra.db import Database
from safelight.library import repo as library
from safelight.library.entry import Entry


class CannotCompare(Unavailable):
    """This database cannot compare images. Install pgvector 0.7 or later in it (the extension
    `vector`) and restart Safelight: images then get what they are compared by."""


class Similar:
    def __init__(self, db: Database, embeddings: Embeddings) -> None:
        self._db = db
        self._embeddings = embeddings

    async def find(self, organization: str, name: str, limit: int) -> list[tuple[Entry, float]]:
        """The most similar first. Of each the upload that its embedding was made of: one that was
        deleted or replaced meanwhile is left out."""
        entry = await library.find(self._db, organization, name)
        if entry is None:
            raise NotFound(f"There is no image called {name}.")
        if not await self._embeddings.kept():
            raise CannotCompare
        own = await repo.embedding(self._db, organization, name, entry.idempotency_key)
        if own is None:
            raise NotReady(
                f"{name} cannot be compared yet: it gets its embedding with its label, "
                "if the classifier gives one."
            )
        near = await repo.nearest(self._db, organization, name, *own, limit)
        found = await library.of_markers(
            self._db, organization, [(name, marker) for name, marker, _ in near]
        )
        return [(found[name], likeness) for name, _, likeness in near if name in found]
