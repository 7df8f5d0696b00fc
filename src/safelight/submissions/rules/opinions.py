"""What models think of the picture that would be published."""

from typing import Final

from safelight.submissions.findings import Finding, PictureCase, Rule, Severity
from safelight.submissions.lifecycle import RejectionCode

_SAFETY_NAME: Final = "safety"


async def _safety(case: PictureCase) -> list[Finding]:
    """A local model's word on whether the picture is safe to show to everybody."""
    score = max([await case.models.safety(view) for view in case.rendition.views])
    policy = case.policy
    evidence = {"score": round(score, 3)}
    if score >= policy.safety_block:
        message = "An automatic check found this picture unsafe to show to everybody."
        return [Finding(_SAFETY_NAME, Severity.BLOCK, message, evidence)]
    if score >= policy.safety_review:
        message = (
            "An automatic check is not sure that this picture is safe to show to everybody; a "
            "person will look at it."
        )
        return [Finding(_SAFETY_NAME, Severity.REVIEW, message, evidence)]
    return []


SAFETY: Final = Rule(_SAFETY_NAME, RejectionCode.POLICY, _safety)


_LABELS_NAME: Final = "labels"
SURE: Final = 0.5


async def _labels(case: PictureCase) -> list[Finding]:
    """It does not show what the organization has ruled out by its label. The classifier is asked
    only where it can make a difference."""
    if not case.policy.blocked_labels:
        return []
    shown = [await case.models.label(case.submission, view) for view in case.rendition.views]
    blocked = [label for label in shown if label.text in case.policy.blocked_labels]
    if not blocked:
        return []
    label = max(blocked, key=lambda label: label.score)
    evidence = {"label": label.text, "score": round(label.score, 3), "model": label.model}
    if label.score >= SURE:
        message = f"Your organization does not publish pictures of this kind ({label.text})."
        return [Finding(_LABELS_NAME, Severity.BLOCK, message, evidence)]
    message = f"This picture may show {label.text}, which your organization does not publish; a "
    message += "person will look at it."
    return [Finding(_LABELS_NAME, Severity.REVIEW, message, evidence)]


LABELS: Final = Rule(_LABELS_NAME, RejectionCode.POLICY, _labels)


_VISION_NAME: Final = "vision"
_WORDS: Final = {  # the gravest first
    "block": "A second automatic check found this picture unfit for publication.",
    "review": "A second automatic check is not sure about this picture; a person will look at it.",
}


async def _vision(case: PictureCase) -> list[Finding]:
    """A remote model's word, where SAFELIGHT_VISION_URL names one."""
    opinions = [await case.models.opinion(case.submission, view) for view in case.rendition.views]
    doubts = [opinion for opinion in opinions if opinion and opinion.verdict in _WORDS]
    if not doubts:
        return []
    opinion = min(doubts, key=lambda doubt: list(_WORDS).index(doubt.verdict))
    message = opinion.message or _WORDS[opinion.verdict]
    evidence = {} if opinion.score is None else {"score": opinion.score}
    return [Finding(_VISION_NAME, Severity(opinion.verdict), message, evidence)]


VISION: Final = Rule(_VISION_NAME, RejectionCode.POLICY, _vision)
