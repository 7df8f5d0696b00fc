"""The times stores give, as epoch milliseconds.

Known gap: a source that gives some times in whole seconds and others in milliseconds can have two
events of one second the wrong way round.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000: Final = 253402300800
_END_OF_SECOND: Final = 999
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class MalformedTime(ValueError):
    """The message tells a person what is wrong with the time."""


def event_time_ms(text: str) -> int:
    """A time without a fraction counts as the end of its second."""
    match = _TIME.fullmatch(text)
    if not match:
        raise MalformedTime("A time must look like 2026-01-05T09:07:03.120Z.")
    day, clock, fraction, zone = match.groups()
    milliseconds = _END_OF_SECOND if fraction is None else int(fraction.ljust(3, "0")[:3])
    return _seconds(f"{day}T{clock}{zone.upper()}") * 1000 + milliseconds


def _seconds(text: str) -> int:
    try:
        seconds = (datetime.fromisoformat(text) - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise MalformedTime("There is no such day or time of day.") from None
    if not 0 <= seconds < _YEAR_10000:
        raise MalformedTime("A time must lie between the years 1970 and 9999.")
    return seconds
