"""A clock that is moved by hand, and ids that can be foretold."""

from itertools import count
from uuid import UUID

from safelight.infra.injected import ImageId, day

START = 1_800_000_000_000  # a morning in January 2027


class Watch:
    """A clock that stands still until it is moved."""

    def __init__(self, ms: int = START) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def move(self, *, ms: int = 0, seconds: float = 0, days: float = 0) -> int:
        """Forwards, or backwards as clocks do now and then; the time it is then."""
        self.ms += ms + round(1000 * seconds) + round(86_400_000 * days)
        return self.ms


class CountedIds:
    """Every id is the next number, dressed as its kind: runs that do the same get the same ids, and
    ids sort by their making."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def image(self, now_ms: int) -> ImageId:
        return ImageId(f"img_{day(now_ms)}_{next(self._numbers):016}")

    def uuid4(self) -> str:
        return str(UUID(int=4 << 76 | 0b10 << 62 | next(self._numbers)))

    def uuid7(self, now_ms: int) -> str:
        return str(UUID(int=now_ms << 80 | 7 << 76 | 0b10 << 62 | next(self._numbers)))

    def short(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):020}"

    def secret(self) -> str:
        return f"{next(self._numbers):043}"
