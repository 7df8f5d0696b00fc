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
class Looks:
    """A picture on a white page, and on a black one where that is another picture. Without contrast
    it has no looks that could be compared."""

    light: Fingerprint | None = None
    dark: Fingerprint | None = None

    @classmethod
    def of(cls, seen: Inspection) -> "Looks":
        return cls(_read(seen.dhash, seen.phash), _read(seen.dark_dhash, seen.dark_phash))

    @classmethod
    def kept(
        cls, dhash: int | None, phash: int | None, dark_dhash: int | None, dark_phash: int | None
    ) -> "Looks":
        """As rows have them."""
        return cls(_known(dhash, phash), _known(dark_dhash, dark_phash))

    @property
    def all(self) -> tuple[Fingerprint, ...]:
        return tuple(look for look in (self.light, self.dark) if look)

    def to_row(self) -> dict[str, int | None]:
        light, dark = self.light, self.dark
        return {
            "dhash": light.dhash if light else None,
            "phash": light.phash if light else None,
            "dark_dhash": dark.dhash if dark else None,
            "dark_phash": dark.phash if dark else None,
        }


def _read(dhash: str | None, phash: str | None) -> Fingerprint | None:
    if dhash is None or phash is None:
        return None
    return Fingerprint(_signed(dhash), _signed(phash))


def _known(dhash: int | None, phash: int | None) -> Fingerprint | None:
    return None if dhash is None or phash is None else Fingerprint(dhash, phash)


@dataclass(frozen=True, slots=True)
class BlocklistEntry:
    """These bytes, whatever looks like this, or both."""

    id: str
    organization: str
    note: str
    checksum: str | None
    looks: Looks
    created_by: str
    created_at: int
