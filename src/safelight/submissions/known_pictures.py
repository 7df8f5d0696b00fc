"""What an organization knows: pictures that it has ruled out, and those that it has published.

Tier 1 asks, and whoever makes a picture public asks again in that very transaction (`look_again`):
of two that come at once the second one sees the first, and what was ruled out while it waited for a
person is not published.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from safelight.infra.db import Connection, Database
from safelight.submissions.findings import Finding, KnownCase, Match, findings
from safelight.submissions.lifecycle import Submission
from safelight.submissions.policies import repo
from safelight.submissions.policies.policy import NEAR, Closeness, Looks
from safelight.submissions.rules.registry import KNOWN

_NAMES = frozenset(rule.name for rule in KNOWN)


@dataclass(frozen=True, slots=True)
class KnownPictures:
    db: Database | Connection

    async def blocked(self, submission: Submission, looks: Looks) -> Match | None:
        organization, checksum = submission.organization, submission.checksum
        found = await repo.blocked(self.db, organization, checksum, looks, NEAR)
        return None if found is None else Match(*found)

    async def published(
        self, submission: Submission, looks: Looks, closeness: Closeness
    ) -> Match | None:
        found = await repo.published_twin(self.db, submission, looks, closeness)
        return None if found is None else Match(*found)


async def look_up(db: Database | Connection, submission: Submission, looks: Looks) -> list[Finding]:
    return await findings(KNOWN, KnownCase(submission, looks, KnownPictures(db)))


async def look_again(
    connection: Connection, submission: Submission, found: Iterable[Finding]
) -> list[Finding]:
    """What was found so far, with what the organization knows by now. Until the transaction's end
    nobody else publishes or rules out a picture of the organization."""
    await repo.lock_pictures(connection, submission.organization)
    others = [finding for finding in found if finding.rule not in _NAMES]
    return [*others, *await look_up(connection, submission, submission.looks)]
