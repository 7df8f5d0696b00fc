"""The way of one submission, as far as it went, and how lengths of time are said. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from safelight.submissions.lifecycle import MACHINE, SubmissionState

_SHORT = {
    SubmissionState.TIER1_SCANNING: "File check",
    SubmissionState.TIER2_SCANNING: "Content check",
    SubmissionState.AWAITING_APPROVAL: "Approval",
}
_STAGES = [state for state in MACHINE.moves if not state.over]
_WORDS = {"done": "done", "now": "now", "ended": "", "next": "to come", "skipped": "not reached"}
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class ProgressStep:
    name: str
    status: str  # a key of _WORDS
    icon: str
    tone: str
    at: int | None = None

    @property
    def word(self) -> str:
        return _WORDS[self.status]


def steps(state: SubmissionState, reached: Mapping[SubmissionState, int]) -> list[ProgressStep]:
    """`reached` tells when each state was entered. Approval is a step of those that need it."""
    stages = [stage for stage in _STAGES if _shows(stage, state, reached)]
    shown = [_stage(stage, state, reached) for stage in stages]
    if state is SubmissionState.WITHDRAWN:
        published = reached.get(SubmissionState.PUBLISHED)
        shown.append(ProgressStep("Published", "done", "check", "done", published))
    if state.over:
        at = reached.get(state)
        shown.append(ProgressStep(state.word, "ended", state.icon, state.tone, at))
    else:
        shown.append(ProgressStep("Published", "next", "dot", "next"))
    return shown


def _shows(
    stage: SubmissionState, state: SubmissionState, reached: Mapping[SubmissionState, int]
) -> bool:
    return stage is not SubmissionState.AWAITING_APPROVAL or stage is state or stage in reached


def _stage(
    stage: SubmissionState, state: SubmissionState, reached: Mapping[SubmissionState, int]
) -> ProgressStep:
    name, at = _SHORT.get(stage, stage.word), reached.get(stage)
    if stage is state:
        return ProgressStep(name, "now", stage.icon, "now", at)
    if _is_behind(stage, state, reached):
        return ProgressStep(name, "done", "check", "done", at)
    status = "skipped" if state.over else "next"
    return ProgressStep(name, status, "dot", status)


def _is_behind(
    stage: SubmissionState, state: SubmissionState, reached: Mapping[SubmissionState, int]
) -> bool:
    order = list(SubmissionState)
    if state in {SubmissionState.REJECTED, SubmissionState.WITHDRAWN}:
        return (
            stage is SubmissionState.RECEIVED
            or stage in reached
            or state is SubmissionState.WITHDRAWN
        )
    return order.index(stage) < order.index(state)


def duration(seconds: float) -> str:
    """In its two largest units at most, as a glance takes it in."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    if whole < _DAY:
        return _two(whole, _HOUR, "h", _MINUTE, "min")
    return _two(whole, _DAY, "d", _HOUR, "h")


def _two(whole: int, large: int, name: str, small: int, rest: str) -> str:
    left = whole % large // small
    return f"{whole // large} {name}" + (f" {left} {rest}" if left else "")
