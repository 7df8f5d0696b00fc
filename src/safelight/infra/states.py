"""States and the only moves between them: what every lifecycle of ours is made of. Pure.

A state says everything about itself in one place: its word and icon for people, and whether it goes
on by itself. A machine is drawn in docs/states.md and asked before every move is written: in Python
with `check`, in a statement by handing it the states the move may come from (`before`).
"""

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from typing import Generic, Self, TypeVar

from safelight.errors import SafelightError


class IllegalTransition(SafelightError):
    """That move is not allowed."""

    code = "ILLEGAL_TRANSITION"


class Phase(Enum):
    UNDER_WAY = "under way"  # a machine is to do something next
    WAITING = "waiting"  # a person is
    OVER = "over"  # nothing follows by itself


class State(StrEnum):
    """A member is declared as value, word, icon, tone and phase."""

    word: str
    icon: str
    tone: str
    phase: Phase

    def __new__(
        cls,
        value: str,
        word: str = "",
        icon: str = "",
        tone: str = "plain",
        phase: Phase = Phase.UNDER_WAY,
    ) -> Self:
        state = str.__new__(cls, value)
        state._value_ = value
        state.word = word
        state.icon = icon
        state.tone = tone
        state.phase = phase
        return state

    @property
    def under_way(self) -> bool:
        return self.phase is Phase.UNDER_WAY

    @property
    def over(self) -> bool:
        return self.phase is Phase.OVER

    @property
    def slug(self) -> str:
        return self.value.lower().replace("_", "-")

    @classmethod
    def in_phase(cls, *phases: Phase) -> tuple[Self, ...]:
        return tuple(state for state in cls if state.phase in phases)


S = TypeVar("S", bound=StrEnum)


class Machine(Generic[S]):
    def __init__(self, noun: str, moves: Mapping[S, tuple[S, ...]]) -> None:
        self.noun = noun
        self.moves = moves

    def check(self, before: S, after: S) -> None:
        allowed = self.moves[before]
        if after not in allowed:
            names = ", ".join(allowed) or "none: it is final"
            raise IllegalTransition(f"{self.noun} cannot go {before} → {after}. Allowed: {names}.")

    def before(self, after: S) -> list[S]:
        """The states that a move to `after` may come from."""
        return [state for state, allowed in self.moves.items() if after in allowed]


def listed(states: Iterable[StrEnum]) -> str:
    """For SQL composed of constants: `('a', 'b')`."""
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"
