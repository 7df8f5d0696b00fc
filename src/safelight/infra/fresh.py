"""What this process has just written, so that it need not be read back.

Only for what never changes, or whose change the next write checks anyway. Whoever takes it forgets
it; another process may do the work instead, so the oldest make room.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_MOST = 1000


class Fresh(Generic[K, V]):
    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._known)

    def remember(self, key: K, value: V) -> None:
        if len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[key] = value

    def take(self, key: K) -> V | None:
        return self._known.pop(key, None)

    def clear(self) -> None:
        self._known.clear()
