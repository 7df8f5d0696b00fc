"""Findings as people read them: in words, by severity, with how sure a model was, and beside the
picture that a duplicate is a duplicate of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from safelight.infra.db import Database
from safelight.submissions import repo
from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import Submission, SubmissionState
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


async def shown_findings(
    db: Database, organization: str, submissions: Iterable[Submission]
) -> dict[str, list[ShownFinding]]:
    """By the id of the submission, the gravest first."""
    loaded = {one.id: list(map(Finding.load, one.findings)) for one in submissions}
    named = {
        str(finding.evidence.get("submission")) for found in loaded.values() for finding in found
    }
    twins = await repo.of_ids(db, organization, named)
    rank = list(Severity)
    return {
        of: sorted(
            (_shown(finding, twins) for finding in found),
            key=lambda finding: rank.index(finding.severity),
        )
        for of, found in loaded.items()
    }


def _shown(finding: Finding, twins: Mapping[str, Submission]) -> ShownFinding:
    score, label = finding.evidence.get("score"), finding.evidence.get("label")
    return ShownFinding(
        finding.rule,
        finding.severity,
        finding.message,
        score if isinstance(score, int | float) and 0 <= score <= 1 else None,
        label if isinstance(label, str) else None,
        _twin(finding, twins.get(str(finding.evidence.get("submission")))),
    )


def _twin(finding: Finding, other: Submission | None) -> KnownTwin | None:
    if other is None or other.state is not SubmissionState.PUBLISHED:
        return None
    exact = finding.evidence.get("match") == "exact"
    return KnownTwin(other.id, other.title or other.source_id, other.updated_at, exact)


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
