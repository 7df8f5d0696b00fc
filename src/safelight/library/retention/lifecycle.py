"""An original that has had its time. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aged:
    """Of an entry: when its object was put, and which it is; no `etag` when that has ended."""

    organization: str
    name: str
    event_time: int
    etag: str | None

    @property
    def key(self) -> str:
        return f"{self.organization}/{self.name}"

    @property
    def place(self) -> tuple[int, str]:
        """Behind which the next is."""
        return self.event_time, self.name


def in_words(days: int) -> str:
    return "a day" if days == 1 else f"{days:,} days"
