"""What the database said no to, kept in mind: whoever asks again meanwhile is told so without it,
and without a turn, however often they ask.

Kept for as long as the database said, but asked again every minute: an attempt at another server
that was under way may have succeeded since, and taken back what counted. So many subjects at the
most; of one that is forgotten the database is asked once more.
"""

from collections.abc import Iterable, Mapping

MOST = 4096
TRUSTED_MS = 60_000


class Refusals:
    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, int]] = {}  # asked at, refused until; the oldest first

    def keep(self, until: Mapping[str, int], now: int) -> None:
        for subject, moment in until.items():
            self._kept.pop(subject, None)
            self._kept[subject] = (now, moment)
        while len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def until(self, subjects: Iterable[str], now: int) -> int:
        """When the last of them may try again; 0: as far as is known here, now."""
        known = (self._kept.get(subject) for subject in subjects)
        believed = (kept[1] for kept in known if kept and 0 <= now - kept[0] < TRUSTED_MS)
        return max(believed, default=0)

    def forget(self, subjects: Iterable[str]) -> None:
        for subject in subjects:
            self._kept.pop(subject, None)
