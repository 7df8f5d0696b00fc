"""It is not published already."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.looks import SAME, Look
from safelight.submissions.rules.rule import FileCase, Rule

NAME: Final = "duplicate"


async def look(case: FileCase) -> list[Finding]:
    match = await case.records.published(case.submission, Look.of(case.inspection), SAME)
    if match is None:
        return []
    what = "This image" if match.exact else "An image that looks the same"
    message = f"{what} is published already; a person will decide whether it should be twice."
    evidence = {"submission": match.id, "match": "exact" if match.exact else "similar"}
    return [Finding(NAME, Severity.REVIEW, message, evidence)]


RULE: Final = Rule(NAME, RejectionCode.POLICY, look)
