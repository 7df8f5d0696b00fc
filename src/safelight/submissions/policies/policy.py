"""What an organization publishes: the settings' word, unless it has its own. Pure."""

from dataclasses import dataclass

from safelight.errors import InvalidRequest
from safelight.settings import Settings
from safelight.submissions.fingerprints import Fingerprint


@dataclass(frozen=True, slots=True)
class PolicyOverrides:
    """What an organization has said itself; None leaves it to the settings."""

    safety_block: float | None = None
    safety_review: float | None = None
    blocked_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    safety_block: float
    safety_review: float
    blocked_labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class BlocklistEntry:
    """These bytes, whatever looks like this, or both."""

    id: str
    organization: str
    note: str
    checksum: str | None
    fingerprint: Fingerprint | None
    created_by: str
    created_at: int


def combined(settings: Settings, own: PolicyOverrides) -> Policy:
    """Should a changed setting have crossed the organization's own, nothing between is reviewed."""
    block, review = _thresholds(settings, own)
    return Policy(block, min(review, block), frozenset(own.blocked_labels))


def check(settings: Settings, own: PolicyOverrides) -> None:
    """Refuses thresholds between which nobody would be asked."""
    block, review = _thresholds(settings, own)
    if review > block:
        raise InvalidRequest("safetyReview must not be larger than safetyBlock.")


def _thresholds(settings: Settings, own: PolicyOverrides) -> tuple[float, float]:
    block = settings.safety_block_score if own.safety_block is None else own.safety_block
    review = settings.safety_review_score if own.safety_review is None else own.safety_review
    return block, review
