"""Which kinds may have work, how many more of each may run here, and whose turn it is. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Opening(NamedTuple):
    kind: str
    free: int
    after: str  # the organization served last


class Slots:
    """A kind is wanted from a wake-up until a claim brought less than was asked for."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._free = dict(limits)
        self._after = dict.fromkeys(limits, "")
        self._wanted: set[str] = set()

    def want(self, kinds: Iterable[str]) -> None:
        self._wanted.update(kind for kind in kinds if kind in self._free)

    def wants(self, kind: str) -> bool:
        return kind in self._wanted

    def take(self, kind: str) -> bool:
        if self._free[kind] <= 0:
            return False
        self._free[kind] -= 1
        return True

    def release(self, kind: str) -> None:
        self._free[kind] += 1

    def openings(self) -> list[Opening]:
        """What to ask for now. These kinds count as served: a wake-up from here on is a new one."""
        found = [Opening(k, self._free[k], self._after[k]) for k in self._wanted if self._free[k]]
        self._wanted.difference_update(opening.kind for opening in found)
        return found

    def claimed(self, asked: Iterable[Opening], got: Mapping[str, list[str]]) -> None:
        """Takes note of the organizations served, per kind, one entry per job."""
        for kind, free, after in asked:
            organizations = got.get(kind, ())
            if len(organizations) >= free:
                self._wanted.add(kind)
            if organizations:
                # The claim goes round once beginning after `after`: the last one served is the
                # largest of those that came after the wrap, if any did.
                self._after[kind] = max(organizations, key=lambda name: (name <= after, name))
