"""Whether embeddings are kept, and by whose name: where the model gives them and the server knows
vectors. Asked once: installing pgvector and starting again is all it takes."""

from safelight.classification import repo
from safelight.classification.base import Classifier
from safelight.infra.db import Database


class Embeddings:
    def __init__(self, db: Database, classifier: Classifier) -> None:
        self._db = db
        self._classifier = classifier
        self._kept: bool | None = None

    @property
    def model(self) -> str:
        """With the weights, where they are known: a result can be told from a later model's."""
        version = self._classifier.model_hash
        return f"{self._classifier.model}@{version[:12]}" if version else self._classifier.model

    async def kept(self) -> bool:
        if self._kept is None:
            self._kept = await repo.embeds(self._db)
        return self._kept

    async def wanted(self) -> bool:
        return self._classifier.dimensions > 0 and await self.kept()
