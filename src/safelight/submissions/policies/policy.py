"""What an organization publishes: the settings' word, unless it has its own."""

from dataclasses import dataclass

from safelight.errors import InvalidRequest
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class Own:
    """What an organization has said itself; None leaves it to the settings."""

    safety_block: float | None = None
    safety_review: float | None = None
    blocked_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    safety_block: float
    safety_review: float
    blocked_labels: frozenset[str]


def combined(settings: Settings, own: Own) -> Policy:
    """Should a changed setting have crossed the organization's own, nothing between is reviewed."""
    block, review = _thresholds(settings, own)
    return Policy(block, min(review, block), frozenset(own.blocked_labels))


def check(settings: Settings, own: Own) -> None:
    """Refuses thresholds between which nobody would be asked."""
    block, review = _thresholds(settings, own)
    if review > block:
        raise InvalidRequest("safetyReview must not be larger than safetyBlock.")


def _thresholds(settings: Settings, own: Own) -> tuple[float, float]:
    block = settings.safety_block_score if own.safety_block is None else own.safety_block
    review = settings.safety_review_score if own.safety_review is None else own.safety_review
    return block, review
