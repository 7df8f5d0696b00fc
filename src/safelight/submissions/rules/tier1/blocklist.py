"""The organization has not ruled this picture out."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.looks import Look
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "blocklist"


async def look(case: FileCase) -> list[Finding]:
    match = await case.records.blocked(case.submission, Look.of(case.inspection))
    if match is None:
        return []
    how = "is" if match.exact else "looks like"
    message = f"This image {how} one that your organization does not publish."
    evidence = {"entry": match.id, "match": "exact" if match.exact else "similar"}
    return [Finding(NAME, Severity.BLOCK, message, evidence)]


RULE: Final = Rule(NAME, RejectionCode.POLICY, look)
