"""Findings as they are read for pages, each duplicate with its twin."""

from collections.abc import Iterable, Mapping

from safelight.infra.db import Database
from safelight.submissions import repo
from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.web.publication.found import KnownTwin, ShownFinding


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
