"""What a rule is. A new one is one file beside these, and one line in registry.py.

A rule looks at a case and returns what it finds, nothing if all is well. It raises only when it
could not look: the run then fails as a whole and is tried again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from safelight.sandbox.protocol import Bounds, Inspection, Rendition
from safelight.submissions.findings import Finding
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.looks import Closeness, Look
from safelight.submissions.policies.policy import Policy
from safelight.submissions.repo import Submission

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Rule(Generic[C]):
    """`code` is what a submission is rejected with when this rule blocks."""

    name: str
    code: RejectionCode
    look: Callable[[C], Awaitable[list[Finding]]]


@dataclass(frozen=True, slots=True)
class Match:
    """Something known that a file equals (`exact`), or looks like."""

    id: str
    exact: bool


class Records(Protocol):
    """What is known in the submission's organization."""

    async def blocked(self, submission: Submission, look: Look | None) -> Match | None: ...

    async def published(
        self, submission: Submission, look: Look | None, closeness: Closeness
    ) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class FileCase:
    """Tier 1: the file as it was submitted, and what a child found in it."""

    submission: Submission
    data: bytes
    inspection: Inspection
    bounds: Bounds
    records: Records


@dataclass(frozen=True, slots=True)
class Label:
    text: str
    score: float
    model: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """A remote model's."""

    verdict: str  # pass, review or block
    message: str | None = None
    score: float | None = None


class Tools(Protocol):
    """The models, each loaded or reached when it is first asked."""

    async def safety(self, rendition: Rendition) -> float:
        """From 0, harmless, to 1."""

    async def label(self, submission: Submission, rendition: Rendition) -> Label: ...

    async def opinion(self, submission: Submission, rendition: Rendition) -> Opinion | None:
        """None: no remote model is configured."""


@dataclass(frozen=True, slots=True)
class PictureCase:
    """Tier 2: exactly the picture that would be published."""

    submission: Submission
    rendition: Rendition
    policy: Policy
    tools: Tools


async def findings(rules: Sequence[Rule[C]], case: C) -> list[Finding]:
    """Every rule has its say, in order, so that a submitter learns of everything at once."""
    return [finding for rule in rules for finding in await rule.look(case)]
