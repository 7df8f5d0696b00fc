"""A model's word on whether the picture is safe to show to everybody."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import PictureCase, Rule

NAME: Final = "safety"


async def look(case: PictureCase) -> list[Finding]:
    score = await case.tools.safety(case.rendition)
    policy = case.policy
    evidence = {"score": round(score, 3)}
    if score >= policy.safety_block:
        message = "An automatic check found this picture unsafe to show to everybody."
        return [Finding(NAME, Severity.BLOCK, message, evidence)]
    if score >= policy.safety_review:
        message = (
            "An automatic check is not sure that this picture is safe to show to everybody; a "
            "person will look at it."
        )
        return [Finding(NAME, Severity.REVIEW, message, evidence)]
    return []


RULE: Final = Rule(NAME, RejectionCode.POLICY, look)
