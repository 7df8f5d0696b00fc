"""What a rule is, what rules find, and what follows from it. Pure.

A rule looks at a case and returns what it finds, nothing if all is well. It raises only when it
could not look: the run then fails as a whole and is tried again. A new rule is one file in rules/
and one line in its registry.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, Self, TypeVar

from safelight.sandbox.protocol import Bounds, Inspection, Rendition
from safelight.submissions.lifecycle import Rejection, RejectionCode, Submission
from safelight.submissions.policies.policy import Closeness, Looks, Policy

C = TypeVar("C")


class Severity(StrEnum):
    """The gravest first. Like a state, it says its word, icon and tone for people."""

    word: str
    icon: str
    tone: str

    BLOCK = "block", "Stops publication", "cross", "problem"  # it is rejected
    REVIEW = "review", "A person has to look", "person", "accent"
    INFO = "info", "Good to know", "info", "plain"  # the submitter is told

    def __new__(cls, value: str, word: str = "", icon: str = "", tone: str = "") -> Self:
        severity = str.__new__(cls, value)
        severity._value_ = value
        severity.word, severity.icon, severity.tone = word, icon, tone
        return severity


@dataclass(frozen=True, slots=True)
class Finding:
    """`message` is for the submitter: what is so, and what they can do about it."""

    rule: str
    severity: Severity
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "evidence": self.evidence,
        }

    @classmethod
    def load(cls, value: dict[str, Any]) -> "Finding":
        return cls(value["rule"], Severity(value["severity"]), value["message"], value["evidence"])


# What a rule is asked about


@dataclass(frozen=True, slots=True)
class Match:
    """Something known that a file equals (`exact`), or looks like."""

    id: str
    exact: bool


class PictureIndex(Protocol):
    """What is known in the submission's organization."""

    async def blocked(self, submission: Submission, looks: Looks) -> Match | None: ...

    async def published(
        self, submission: Submission, looks: Looks, closeness: Closeness
    ) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class KnownCase:
    """Whether the organization knows the picture. Asked in tier 1, and once more by whoever makes
    it public, under a lock: what is known changes meanwhile."""

    submission: Submission
    looks: Looks
    known: PictureIndex


@dataclass(frozen=True, slots=True)
class FileCase:
    """Tier 1: what a child found in the file as it was submitted. The bytes are not here: no rule
    looks through them on the event loop."""

    submission: Submission
    inspection: Inspection
    bounds: Bounds


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


class PictureModels(Protocol):
    """Each loaded or reached when it is first asked, about one view of the picture."""

    async def safety(self, view: Rendition) -> float:
        """From 0, harmless, to 1."""

    async def label(self, submission: Submission, view: Rendition) -> Label: ...

    async def opinion(self, submission: Submission, view: Rendition) -> Opinion | None:
        """None: no remote model is configured."""


@dataclass(frozen=True, slots=True)
class PictureCase:
    """Tier 2: exactly the picture that would be published, and, of one that is see-through, what
    else it could have been taken for. The worst view counts."""

    submission: Submission
    rendition: Rendition
    policy: Policy
    models: PictureModels


@dataclass(frozen=True, slots=True)
class Rule(Generic[C]):
    """`code` is what a submission is rejected with when this rule blocks."""

    name: str
    code: RejectionCode
    look: Callable[[C], Awaitable[list[Finding]]]


async def findings(rules: Sequence[Rule[C]], case: C) -> list[Finding]:
    """Every rule has its say, in order, so that a submitter learns of everything at once."""
    return [finding for rule in rules for finding in await rule.look(case)]


# What follows


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing speaks against it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to look at these."""

    doubts: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    rejection: Rejection


def judge(findings: Sequence[Finding], codes: dict[str, RejectionCode]) -> Pass | Ask | Fail:
    """`codes` says with which code each rule rejects. The first that blocks gives the reason."""
    for finding in findings:
        if finding.severity is Severity.BLOCK:
            code = codes.get(finding.rule, RejectionCode.POLICY)
            return Fail(Rejection(code, finding.message))
    doubts = tuple(finding for finding in findings if finding.severity is Severity.REVIEW)
    return Ask(doubts) if doubts else Pass()
