"""The picture does not show what the organization has ruled out by its label."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import PictureCase, Rule

NAME: Final = "labels"
SURE: Final = 0.5


async def look(case: PictureCase) -> list[Finding]:
    """The classifier is asked only where it can make a difference."""
    if not case.policy.blocked_labels:
        return []
    label = await case.tools.label(case.submission, case.rendition)
    if label.text not in case.policy.blocked_labels:
        return []
    evidence = {"label": label.text, "score": round(label.score, 3), "model": label.model}
    if label.score >= SURE:
        message = f"Your organization does not publish pictures of this kind ({label.text})."
        return [Finding(NAME, Severity.BLOCK, message, evidence)]
    message = f"This picture may show {label.text}, which your organization does not publish; a "
    message += "person will look at it."
    return [Finding(NAME, Severity.REVIEW, message, evidence)]


RULE: Final = Rule(NAME, RejectionCode.POLICY, look)
