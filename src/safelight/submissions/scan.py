"""One pass of each tier over what was pinned: read, open in a child, ask the rules."""

from dataclasses import dataclass

from safelight.objects.store import ObjectStore
from safelight.sandbox.protocol import Bounds, Fault, FaultKind, Rendition
from safelight.sandbox.sandbox import Sandbox, TaskDied
from safelight.submissions.findings import Finding
from safelight.submissions.looks import Look
from safelight.submissions.pin import pinned_key
from safelight.submissions.policies.policies import Policies
from safelight.submissions.repo import Submission
from safelight.submissions.rules.registry import TIER1, TIER2
from safelight.submissions.rules.rule import (
    FileCase,
    PictureCase,
    Records,
    Rule,
    Tools,
    findings,
)
from safelight.submissions.rules.tier1.structure import broken
from safelight.submissions.safety import SIDE


@dataclass(frozen=True, slots=True)
class FileSeen:
    findings: list[Finding]
    look: Look | None


@dataclass(frozen=True, slots=True)
class PictureSeen:
    """Without a rendition there is something in the findings that blocks."""

    findings: list[Finding]
    rendition: Rendition | None


@dataclass(frozen=True, slots=True)
class Scan:
    store: ObjectStore
    sandbox: Sandbox
    bounds: Bounds
    records: Records
    policies: Policies
    tools: Tools
    tier1_rules: tuple[Rule[FileCase], ...] = TIER1
    tier2_rules: tuple[Rule[PictureCase], ...] = TIER2

    async def tier1(self, submission: Submission) -> FileSeen:
        data = await self._bytes(submission)
        inspection = await self.sandbox.inspect(data, self.bounds)
        case = FileCase(submission, data, inspection, self.bounds, self.records)
        return FileSeen(await findings(self.tier1_rules, case), Look.of(inspection))

    async def tier2(self, submission: Submission) -> PictureSeen:
        """The rules see the rendition, so what they judge is what is published."""
        data = await self._bytes(submission)
        try:
            rendition = await self.sandbox.render(data, square=SIDE)
        except TaskDied as death:
            return PictureSeen([broken(Fault(FaultKind(death.reason)))], None)
        policy = await self.policies.of(submission.organization)
        case = PictureCase(submission, rendition, policy, self.tools)
        return PictureSeen(await findings(self.tier2_rules, case), rendition)

    async def _bytes(self, submission: Submission) -> bytes:
        content = await self.store.get(pinned_key(submission.id))
        return await content.read()
