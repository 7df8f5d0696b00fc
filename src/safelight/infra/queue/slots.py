"""How much of each kind runs at once in a process, and whose. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Opening(NamedTuple):
    kind: str
    free: int
    after: str  # the organization served last


class Slots:
    """A kind is wanted from a wake-up until a claim brought less than was asked for.

    Beyond its limit each kind has one more slot, for a guest: an organization that has nothing
    running while another has several. Long jobs of one, however many, then keep nobody waiting for
    their end, and one organization alone still has every slot there is.

    Some of a kind's slots may be for jobs that wait here for their turn (`ahead`). They are filled
    together, when all of them are free, so that one claim serves many."""

    def __init__(self, limits: Mapping[str, int], ahead: Mapping[str, int] | None = None) -> None:
        ahead = ahead or {}
        self._free = {kind: limit + ahead.get(kind, 0) for kind, limit in limits.items()}
        self._least = {kind: max(1, ahead.get(kind, 0)) for kind in limits}  # to be worth a claim
        self._running: dict[str, Counter[str]] = {kind: Counter() for kind in limits}
        self._after = dict.fromkeys(limits, "")
        self._wanted: set[str] = set()

    def want(self, kinds: Iterable[str]) -> None:
        self._wanted.update(kind for kind in kinds if kind in self._free)

    def open(self, kind: str) -> bool:
        """Whether a claim is due."""
        return kind in self._wanted and self._free[kind] >= self._least[kind]

    def reserve(self, kind: str, organization: str) -> bool:
        """A slot for a job that is not there yet, unless others wait for one already: it has no
        turn before theirs. Let go by `release`."""
        if kind in self._wanted or self._free[kind] <= 0:
            return False
        return self.take(kind, organization)

    def take(self, kind: str, organization: str) -> bool:
        if self._free[kind] <= 0 and not self._welcome(kind, organization):
            return False
        self._free[kind] -= 1
        self._running[kind][organization] += 1
        return True

    def release(self, kind: str, organization: str) -> None:
        self._free[kind] += 1
        running = self._running[kind]
        running[organization] -= 1
        if not running[organization]:
            del running[organization]

    def free(self) -> list[str]:
        return [kind for kind, free in self._free.items() if free > 0]

    def openings(self) -> list[Opening]:
        """What to ask for now. These kinds count as served: a wake-up from here on is a new one."""
        found = [
            Opening(kind, self._free[kind], self._after[kind])
            for kind in self._wanted
            if self.open(kind)
        ]
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

    def crowded(self, kinds: Iterable[str]) -> dict[str, list[str]]:
        """Of these kinds those that have room for a guest only, and whose jobs they run."""
        return {kind: list(self._running[kind]) for kind in kinds if self._welcome(kind)}

    def _welcome(self, kind: str, organization: str | None = None) -> bool:
        running = self._running[kind]
        return (
            0 <= self._free[kind] < self._least[kind]
            and organization not in running
            and max(running.values(), default=0) > 1
        )
