"""How a picture looks, in two prints of 64 bits, and when two look alike. Pure."""

from dataclasses import dataclass
from typing import Final

from safelight.sandbox.protocol import Inspection


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
