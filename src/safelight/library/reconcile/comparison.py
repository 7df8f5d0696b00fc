"""What a walk has found so far, and where it goes on: kept after each page, so that one that is
killed goes on there. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from safelight.library.reconcile.mend import Difference

_EXAMPLES = 5


@dataclass
class Found:
    """Of one kind of difference. Examples are keys."""

    count: int = 0
    repaired: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class Comparison:
    """`foreign` are objects that never were uploads, `under_way` names that work goes on with;
    neither is a difference. `unsure` could not be looked at: the log says why. `position`: up to
    where; None: everything was compared."""

    position: str | None = ""
    compared: int = 0
    foreign: int = 0
    under_way: int = 0
    unsure: int = 0
    found: dict[Difference, Found] = field(default_factory=dict)

    def add(self, difference: Difference, key: str, *, repaired: bool) -> None:
        of_kind = self.found.setdefault(difference, Found())
        of_kind.count += 1
        of_kind.repaired += repaired
        if len(of_kind.examples) < _EXAMPLES:
            of_kind.examples.append(key)

    @property
    def complete(self) -> bool:
        return self.position is None

    @property
    def repaired(self) -> int:
        return sum(of_kind.repaired for of_kind in self.found.values())

    @property
    def remaining(self) -> int:
        return sum(of_kind.count - of_kind.repaired for of_kind in self.found.values())

    @property
    def agreed(self) -> bool:
        return self.complete and not self.remaining and not self.unsure

    def as_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "compared": self.compared,
            "foreign": self.foreign,
            "underWay": self.under_way,
            "unsure": self.unsure,
            "differences": {
                str(kind): {
                    "count": of_kind.count,
                    "repaired": of_kind.repaired,
                    "examples": of_kind.examples,
                }
                for kind, of_kind in self.found.items()
            },
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Self:
        return cls(
            kept["position"],
            kept["compared"],
            kept["foreign"],
            kept["underWay"],
            kept["unsure"],
            {Difference(kind): Found(**of_kind) for kind, of_kind in kept["differences"].items()},
        )
