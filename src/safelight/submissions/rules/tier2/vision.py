"""A remote model's word, where SAFELIGHT_VISION_URL names one."""

from typing import Final

from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import PictureCase, Rule

NAME: Final = "vision"
_WORDS: Final = {
    "block": "A second automatic check found this picture unfit for publication.",
    "review": "A second automatic check is not sure about this picture; a person will look at it.",
}


async def look(case: PictureCase) -> list[Finding]:
    opinion = await case.tools.opinion(case.submission, case.rendition)
    if opinion is None or opinion.verdict not in _WORDS:
        return []
    message = opinion.message or _WORDS[opinion.verdict]
    evidence = {} if opinion.score is None else {"score": opinion.score}
    return [Finding(NAME, Severity(opinion.verdict), message, evidence)]


RULE: Final = Rule(NAME, RejectionCode.POLICY, look)
