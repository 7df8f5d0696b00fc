"""How long a server that turned us away asks us to wait."""

from datetime import UTC
from email.utils import parsedate_to_datetime


def seconds_of(hint: str | None, now_ms: int) -> float | None:
    """Retry-After: seconds, or a date."""
    if hint is None:
        return None
    try:
        if hint.strip().isdigit():
            return float(hint)
        moment = parsedate_to_datetime(hint)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - now_ms / 1000, 0.0)
