"""The models of tier 2."""

from dataclasses import dataclass

from safelight.classification.base import Classifier
from safelight.infra.db import Database
from safelight.sandbox.protocol import Rendition
from safelight.submissions import repo
from safelight.submissions.repo import Submission
from safelight.submissions.rules.rule import Label, Opinion
from safelight.submissions.safety import SafetyModel
from safelight.submissions.vision import Vision


@dataclass(frozen=True, slots=True)
class Models:
    db: Database
    safety_model: SafetyModel
    classifier: Classifier
    vision: Vision | None = None

    async def safety(self, rendition: Rendition) -> float:
        return await self.safety_model.score(rendition.square)

    async def label(self, submission: Submission, rendition: Rendition) -> Label:
        """The library's, if it knows this very upload; otherwise the classifier is asked now."""
        is_upload = submission.source_kind == "upload"
        if is_upload and (known := await repo.known_label(self.db, submission)):
            return Label(*known)
        await self.classifier.open()
        found = await self.classifier.classify(rendition.data)
        return Label(found.label, found.score, self.classifier.model)

    async def opinion(self, submission: Submission, rendition: Rendition) -> Opinion | None:
        return await self.vision.opinion(submission, rendition) if self.vision else None
