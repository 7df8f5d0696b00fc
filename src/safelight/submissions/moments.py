"""Times in expiring values are written as people read them; here is the way back."""

from datetime import datetime

HOUR_MS = 3_600_000


def to_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def hour_of(ms: int) -> int:
    """The beginning of the hour a moment lies in."""
    return ms - ms % HOUR_MS


def next_tick(ms: int, every_ms: int) -> int:
    """The first moment from `ms` on at which a schedule of that cadence runs."""
    return -(-ms // every_ms) * every_ms
