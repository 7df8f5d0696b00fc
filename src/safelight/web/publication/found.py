"""What was found in a submission, as people read it: in words, by severity, with how sure a model
was, and beside the picture that a duplicate is a duplicate of. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from safelight.submissions.findings import Severity
from safelight.web.story.words import percent


@dataclass(frozen=True, slots=True)
class KnownTwin:
    """A published picture that equals another, or looks like it."""

    id: str
    title: str
    at: int
    exact: bool

    @property
    def picture(self) -> str:
        return f"/public/{self.id}"

    @property
    def page(self) -> str:
        return f"/submit/{self.id}"


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """`share` is a model's score, from 0 to 1."""

    rule: str
    severity: Severity
    message: str
    share: float | None = None
    label: str | None = None
    twin: KnownTwin | None = None

    @property
    def percent(self) -> str:
        return percent(self.share or 0)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    severity: Severity
    findings: tuple[ShownFinding, ...]


def grouped(findings: Iterable[ShownFinding]) -> list[FindingGroup]:
    """By severity, as far as there are any."""
    found = list(findings)
    groups = (
        FindingGroup(severity, tuple(one for one in found if one.severity is severity))
        for severity in Severity
    )
    return [group for group in groups if group.findings]


def twin_of(findings: Iterable[ShownFinding]) -> KnownTwin | None:
    return next((finding.twin for finding in findings if finding.twin), None)
