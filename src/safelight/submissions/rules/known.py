"""The picture is not one the organization knows already: ruled out, or published."""

from typing import Final

from safelight.submissions.findings import Finding, KnownCase, Rule, Severity
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.policies.policy import SAME

_BLOCKLIST_NAME: Final = "blocklist"


async def _blocklist(case: KnownCase) -> list[Finding]:
    """The organization has not ruled this picture out."""
    match = await case.known.blocked(case.submission, case.looks)
    if match is None:
        return []
    how = "is" if match.exact else "looks like"
    message = f"This image {how} one that your organization does not publish."
    evidence = {"entry": match.id, "match": "exact" if match.exact else "similar"}
    return [Finding(_BLOCKLIST_NAME, Severity.BLOCK, message, evidence)]


BLOCKLIST: Final = Rule(_BLOCKLIST_NAME, RejectionCode.POLICY, _blocklist)


_DUPLICATE_NAME: Final = "duplicate"


async def _duplicate(case: KnownCase) -> list[Finding]:
    """It is not published already."""
    match = await case.known.published(case.submission, case.looks, SAME)
    if match is None:
        return []
    what = "This image" if match.exact else "An image that looks the same"
    message = f"{what} is published already; a person will decide whether it should be twice."
    evidence = {"submission": match.id, "match": "exact" if match.exact else "similar"}
    return [Finding(_DUPLICATE_NAME, Severity.REVIEW, message, evidence)]


DUPLICATE: Final = Rule(_DUPLICATE_NAME, RejectionCode.POLICY, _duplicate)
