"""What an organization publishes: the settings' word, unless it has its own; and how pictures that
it has ruled out or published are known again, by two prints of 64 bits. Pure."""

from dataclasses import dataclass
from typing import Final

from safelight.errors import InvalidRequest
from safelight.sandbox.protocol import Inspection
from safelight.settings import Settings


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


# Pictures that look alike


@dataclass(frozen=True, slots=True)
class Closeness:
    """In how many bits each print may differ."""

    dhash: int
    phash: int


# A copy that was scaled, recompressed, or changed a little.
NEAR: Final = Closeness(dhash=10, phash=12)
# The same picture, saved again.
SAME: Final = Closeness(dhash=3, phash=4)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Signed, as the database keeps them."""

    dhash: int
    phash: int

    @classmethod
    def of(cls, inspection: Inspection) -> "Fingerprint | None":
        if inspection.dhash is None or inspection.phash is None:
            return None
        return cls(_signed(inspection.dhash), _signed(inspection.phash))

    @classmethod
    def parse(cls, text: str) -> "Fingerprint":
        """As the API writes it: two times 16 hex digits, with a hyphen."""
        one, _, other = text.partition("-")
        return cls(_signed(one), _signed(other))

    def __str__(self) -> str:
        return f"{_hex(self.dhash)}-{_hex(self.phash)}"


def _signed(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


def _hex(value: int) -> str:
    return value.to_bytes(8, "big", signed=True).hex()


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
