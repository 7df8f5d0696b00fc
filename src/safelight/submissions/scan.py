"""One pass of each tier over what was pinned: read, open in a child, ask the rules; and what rules
may ask in turn: the models."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from safelight.classification.base import Classifier
from safelight.errors import Unavailable
from safelight.infra.db import Database
from safelight.library import repo as library
from safelight.objects.store import ObjectStore
from safelight.sandbox.protocol import Bounds, Fault, Rendition
from safelight.sandbox.sandbox import Sandbox, TaskDied
from safelight.settings import Settings
from safelight.submissions.findings import (
    FileCase,
    Finding,
    Label,
    Opinion,
    PictureCase,
    PictureModels,
    findings,
)
from safelight.submissions.known_pictures import look_up
from safelight.submissions.lifecycle import Submission, pinned_key
from safelight.submissions.models.safety import SIDE, SafetyModel
from safelight.submissions.models.vision import Vision
from safelight.submissions.policies import repo as policies
from safelight.submissions.policies.policy import Looks, combined
from safelight.submissions.rules.registry import TIER1, TIER2
from safelight.submissions.rules.well_formed import broken

_ELSEWHERE: Final = "waiting for somebody else"


class Unanswered(Unavailable):
    """What is needed to check this image did not answer in time."""

    code = "SCAN_TIMEOUT"


@asynccontextmanager
async def elsewhere() -> AsyncIterator[None]:
    """Around what a store or a remote model takes: a run whose time ends here says so."""
    try:
        yield
    except asyncio.CancelledError as error:
        raise asyncio.CancelledError(_ELSEWHERE) from error


def was_waiting(timeout: TimeoutError) -> bool:
    """A limit of time is a cancellation at heart."""
    cause = timeout.__cause__
    return isinstance(cause, asyncio.CancelledError) and cause.args == (_ELSEWHERE,)


@dataclass(frozen=True, slots=True)
class FileSeen:
    findings: list[Finding]
    looks: Looks


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
        async with self._pinned(submission) as data:
            inspection = await self.sandbox.inspect(data, self.bounds)
        case, looks = FileCase(submission, inspection, self.bounds), Looks.of(inspection)
        found = await findings(TIER1, case)
        return FileSeen([*found, *await look_up(self.db, submission, looks)], looks)

    async def tier2(self, submission: Submission) -> PictureSeen:
        """The rules see the rendition, so what they judge is what is published."""
        try:
            async with self._pinned(submission) as data:
                rendition = await self.sandbox.render(data, square=SIDE)
        except TaskDied as death:
            return PictureSeen([broken(Fault(death.reason))], None)
        own = await policies.policy_overrides(self.db, submission.organization)
        case = PictureCase(submission, rendition, combined(self.settings, own), self.models)
        return PictureSeen(await findings(TIER2, case), rendition)

    @asynccontextmanager
    async def _pinned(self, submission: Submission) -> AsyncIterator[bytes | int]:
        async with AsyncExitStack() as held:
            async with elsewhere():
                content = await self.store.get(pinned_key(submission.id))
                data = await held.enter_async_context(content.source())
            yield data


@dataclass(frozen=True, slots=True)
class LoadedModels:
    db: Database
    safety_model: SafetyModel
    classifier: Classifier
    vision: Vision | None = None

    async def safety(self, view: Rendition) -> float:
        return await self.safety_model.score(view.square)

    async def label(self, submission: Submission, view: Rendition) -> Label:
        """The library's, if it knows this very upload and there is only one way to see it;
        otherwise the classifier is asked now."""
        name, marker = submission.source_id, submission.source_marker
        is_upload = submission.source_kind == "upload"
        if (
            is_upload
            and not view.see_through
            and (known := await library.label_of(self.db, submission.organization, name, marker))
        ):
            return Label(*known)
        async with elsewhere() if self.classifier.remote else nullcontext():
            await self.classifier.open()
            found = await self.classifier.classify(view.data)
        return Label(found.label, found.score, self.classifier.model)

    async def opinion(self, submission: Submission, view: Rendition) -> Opinion | None:
        if self.vision is None:
            return None
        async with elsewhere():
            return await self.vision.opinion(submission, view)

    async def close(self) -> None:
        if self.vision:
            await self.vision.close()
