"""One pass of each tier over what was pinned: read, open in a child, ask the rules; and what rules
may ask in turn, the organization's pictures and the models."""

from dataclasses import dataclass

from safelight.classification.base import Classifier
from safelight.infra.db import Database
from safelight.library import repo as library
from safelight.objects.store import ObjectStore
from safelight.sandbox.protocol import Bounds, Fault, FaultKind, Rendition
from safelight.sandbox.sandbox import Sandbox, TaskDied
from safelight.settings import Settings
from safelight.submissions import repo
from safelight.submissions.findings import (
    FileCase,
    Finding,
    Label,
    Match,
    Opinion,
    PictureCase,
    PictureModels,
    findings,
)
from safelight.submissions.lifecycle import Submission, pinned_key
from safelight.submissions.models.safety import SIDE, SafetyModel
from safelight.submissions.models.vision import Vision
from safelight.submissions.policies.policy import NEAR, Closeness, Fingerprint, combined
from safelight.submissions.rules.registry import TIER1, TIER2
from safelight.submissions.rules.well_formed import broken


@dataclass(frozen=True, slots=True)
class FileSeen:
    findings: list[Finding]
    fingerprint: Fingerprint | None


@dataclass(frozen=True, slots=True)
class PictureSeen:
    """Without a rendition there is something in the findings that blocks."""

    findings: list[Finding]
    rendition: Rendition | None


@dataclass(frozen=True, slots=True)
class Scan:
    db: Database
    settings: Settings
    store: ObjectStore
    sandbox: Sandbox
    bounds: Bounds
    models: PictureModels

    async def tier1(self, submission: Submission) -> FileSeen:
        data = await self._bytes(submission)
        inspection = await self.sandbox.inspect(data, self.bounds)
        fingerprint = Fingerprint.of(inspection)
        known = KnownPictures(self.db)
        case = FileCase(submission, data, inspection, fingerprint, self.bounds, known)
        return FileSeen(await findings(TIER1, case), fingerprint)

    async def tier2(self, submission: Submission) -> PictureSeen:
        """The rules see the rendition, so what they judge is what is published."""
        data = await self._bytes(submission)
        try:
            rendition = await self.sandbox.render(data, square=SIDE)
        except TaskDied as death:
            return PictureSeen([broken(Fault(FaultKind(death.reason)))], None)
        own = await repo.policy_overrides(self.db, submission.organization)
        case = PictureCase(submission, rendition, combined(self.settings, own), self.models)
        return PictureSeen(await findings(TIER2, case), rendition)

    async def _bytes(self, submission: Submission) -> bytes:
        content = await self.store.get(pinned_key(submission.id))
        return await content.read()


@dataclass(frozen=True, slots=True)
class KnownPictures:
    db: Database

    async def blocked(
        self, submission: Submission, fingerprint: Fingerprint | None
    ) -> Match | None:
        organization, checksum = submission.organization, submission.checksum
        found = await repo.blocked(self.db, organization, checksum, fingerprint, NEAR)
        return None if found is None else Match(*found)

    async def published(
        self, submission: Submission, fingerprint: Fingerprint | None, closeness: Closeness
    ) -> Match | None:
        found = await repo.published_twin(self.db, submission, fingerprint, closeness)
        return None if found is None else Match(*found)


@dataclass(frozen=True, slots=True)
class LoadedModels:
    db: Database
    safety_model: SafetyModel
    classifier: Classifier
    vision: Vision | None = None

    async def safety(self, rendition: Rendition) -> float:
        return await self.safety_model.score(rendition.square)

    async def label(self, submission: Submission, rendition: Rendition) -> Label:
        """The library's, if it knows this very upload; otherwise the classifier is asked now."""
        name, marker = submission.source_id, submission.source_marker
        is_upload = submission.source_kind == "upload"
        if is_upload and (
            known := await library.label_of(self.db, submission.organization, name, marker)
        ):
            return Label(*known)
        await self.classifier.open()
        found = await self.classifier.classify(rendition.data)
        return Label(found.label, found.score, self.classifier.model)

    async def opinion(self, submission: Submission, rendition: Rendition) -> Opinion | None:
        return await self.vision.opinion(submission, rendition) if self.vision else None

    async def close(self) -> None:
        self.safety_model.close()
        if self.vision:
            await self.vision.close()
