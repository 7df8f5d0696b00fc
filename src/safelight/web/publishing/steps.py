"""The way of one submission, as far as it went. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from safelight.submissions.lifecycle import TERMINAL, State
from safelight.web.publishing.words import STATES

_NAMES = {
    State.RECEIVED: "Received",
    State.TIER1_SCANNING: "File check",
    State.TIER2_SCANNING: "Content check",
    State.AWAITING_APPROVAL: "Approval",
}
_WORDS = {"done": "done", "now": "now", "ended": "", "next": "to come", "skipped": "not reached"}


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    status: str  # a key of _WORDS
    icon: str
    tone: str
    at: int | None = None

    @property
    def word(self) -> str:
        return _WORDS[self.status]


def steps(state: State, reached: Mapping[State, int]) -> list[Step]:
    """`reached` tells when each state was entered. Approval is a step of those that need it."""
    stages = [stage for stage in _NAMES if _shows(stage, state, reached)]
    shown = [_stage(stage, state, reached) for stage in stages]
    if state is State.WITHDRAWN:
        published = reached.get(State.PUBLISHED)
        shown.append(Step("Published", "done", "check", "done", published))
    if state in TERMINAL:
        look = STATES[state]
        shown.append(Step(look.word, "ended", look.icon, look.tone, reached.get(state)))
    else:
        shown.append(Step("Published", "next", "dot", "next"))
    return shown


def _shows(stage: State, state: State, reached: Mapping[State, int]) -> bool:
    return stage is not State.AWAITING_APPROVAL or stage is state or stage in reached


def _stage(stage: State, state: State, reached: Mapping[State, int]) -> Step:
    at = reached.get(stage)
    if stage is state:
        return Step(_NAMES[stage], "now", STATES[stage].icon, "now", at)
    if _is_behind(stage, state, reached):
        return Step(_NAMES[stage], "done", "check", "done", at)
    status = "skipped" if state in TERMINAL else "next"
    return Step(_NAMES[stage], status, "dot", status)


def _is_behind(stage: State, state: State, reached: Mapping[State, int]) -> bool:
    order = list(State)
    if state in {State.REJECTED, State.WITHDRAWN}:
        return stage is State.RECEIVED or stage in reached or state is State.WITHDRAWN
    return order.index(stage) < order.index(state)
