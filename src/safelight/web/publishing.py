"""The way of one submission: what was done, by whom, how long it took, where it ended and what
comes next; and how lengths of time are said. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from safelight.approvals.lifecycle import Approval, ApprovalStatus
from safelight.infra.history import Activity
from safelight.submissions.findings import Severity
from safelight.submissions.lifecycle import RejectionCode, Submission, SubmissionState
from safelight.submissions.rules.registry import TIER2
from safelight.web.publication.found import FindingGroup, ShownFinding, grouped

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_SECOND_MS = 1000
_OF_CONTENT: Final = frozenset(rule.name for rule in TIER2)
_CHECKS: Final = {
    SubmissionState.TIER1_SCANNING: (
        "File check",
        "Whether the file is sound, hides nothing, and is not published already.",
    ),
    SubmissionState.TIER2_SCANNING: (
        "Content check",
        "Whether models find the picture fit for everybody.",
    ),
}
_BY_PERSON: Final = frozenset({"user", "token"})
_ORDER: Final = (*_CHECKS, SubmissionState.AWAITING_APPROVAL)


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """`status` is done, now, failed, next or skipped; the look of it follows from that."""

    name: str
    status: str
    words: str = ""
    who: str | None = None
    at: int | None = None
    took: str | None = None
    ends_at: int | None = None  # if nobody does anything
    findings: Sequence[FindingGroup] = ()

    @property
    def icon(self) -> str:
        looks = {"done": "check", "now": "clock", "failed": "cross", "ended": "back"}
        return looks.get(self.status, "dot")


@dataclass(frozen=True, slots=True)
class Passage:
    """What is known of a submission's way: `moves` are its changes of state, oldest first."""

    submission: Submission
    moves: Sequence[Activity] = ()
    findings: Sequence[ShownFinding] = ()
    approval: Approval | None = None

    @classmethod
    def of(
        cls,
        submission: Submission,
        lines: Sequence[Activity],
        findings: Sequence[ShownFinding] = (),
        approval: Approval | None = None,
    ) -> "Passage":
        known = set(SubmissionState)
        moves = [
            line
            for line in lines
            if line.type == "submission_state_changed" and line.data.get("to") in known
        ]
        moves.sort(key=lambda line: line.seq)
        return cls(submission, moves, findings, approval)

    @property
    def times(self) -> dict[SubmissionState, int]:
        """When each state was entered, in their order."""
        told = {SubmissionState(move.data["to"]): move.at for move in self.moves}
        return {SubmissionState.RECEIVED: self.submission.created_at} | told

    @property
    def state(self) -> SubmissionState:
        return self.submission.state

    @property
    def last(self) -> Mapping[str, Any]:
        """The move that ended it."""
        ends = (line.data for line in reversed(self.moves) if line.data.get("to") == self.state)
        return next(ends, {})

    @property
    def stopped_at(self) -> SubmissionState | None:
        """The stage in which it was rejected; what had not begun is the first check."""
        if self.state is not SubmissionState.REJECTED:
            return None
        before = self.last.get("from")
        reached = [stage for stage in _ORDER if stage is before or stage == before]
        if not before:
            reached = [stage for stage in _ORDER if stage in self.times]
        return reached[-1] if reached else SubmissionState.TIER1_SCANNING

    @property
    def called_off(self) -> bool:
        """It was ended from outside: no step is to blame."""
        code = (self.submission.rejection or {}).get("code")
        if code == RejectionCode.SOURCE_GONE:
            return True
        return code == RejectionCode.POLICY and _kind(self.last) in _BY_PERSON

    def took(self, stage: SubmissionState) -> str | None:
        reached = list(self.times.items())
        ends = {state: end for (state, _), (_, end) in pairwise(reached)}
        return length(ends[stage] - self.times[stage]) if stage in ends else None


def steps(passage: Passage) -> list[ProgressStep]:
    """A person's decision is a step of those that need it."""
    asked = SubmissionState.AWAITING_APPROVAL in (passage.state, *passage.times)
    shown = [_asked(passage), *(_check(passage, stage) for stage in _CHECKS)]
    if asked:
        shown.append(_decision(passage))
    return [*shown, *_end(passage)]


def _asked(passage: Passage) -> ProgressStep:
    submission = passage.submission
    waits = passage.state is SubmissionState.RECEIVED
    words = "Waits for its turn." if waits else ""
    return ProgressStep(
        "Submitted",
        "now" if waits else "done",
        words,
        submission.submitted_by.get("name"),
        submission.created_at,
    )


def _check(passage: Passage, stage: SubmissionState) -> ProgressStep:
    name, about = _CHECKS[stage]
    status = _status(passage, stage)
    groups = grouped(_found_by(passage, stage))
    words = {
        "now": about,
        "next": about,
        "failed": _why(passage, groups),
        "done": "" if groups else "Nothing found.",
        "skipped": "Not reached.",
    }[status]
    times = passage.times.get(stage), passage.took(stage)
    at, took = times if status in {"done", "failed", "now"} else (None, None)
    return ProgressStep(name, status, words, None, at, took, findings=groups)


def _status(passage: Passage, stage: SubmissionState) -> str:
    if passage.state is stage:
        return "now"
    stopped = passage.stopped_at
    if stopped is stage:
        return "skipped" if passage.called_off else "failed"
    here = _ORDER.index(stage)
    if stopped is not None:
        return "done" if here < _ORDER.index(stopped) else "skipped"
    if passage.state in _ORDER:
        return "done" if here < _ORDER.index(passage.state) else "next"
    return "next" if passage.state is SubmissionState.RECEIVED else "done"


def _found_by(passage: Passage, stage: SubmissionState) -> list[ShownFinding]:
    """What blocks stands where it was rejected, whichever rule found it."""
    stopped = passage.stopped_at
    mine = stage is SubmissionState.TIER2_SCANNING
    return [
        one
        for one in passage.findings
        if (
            stage is stopped
            if one.severity is Severity.BLOCK and stopped in _CHECKS
            else (one.rule in _OF_CONTENT) is mine
        )
    ]


def _why(passage: Passage, groups: Sequence[FindingGroup]) -> str:
    """Unless a finding says the very same."""
    message = (passage.submission.rejection or {}).get("message", "")
    said = {one.message for group in groups for one in group.findings}
    return "" if message in said else message


def _decision(passage: Passage) -> ProgressStep:
    stage, approval = SubmissionState.AWAITING_APPROVAL, passage.approval
    status = _status(passage, stage)
    at, took = passage.times.get(stage), passage.took(stage)
    if status == "now":
        ends = approval.expires_at if approval else None
        return ProgressStep("Decision", status, "Waits for an approver.", at=at, ends_at=ends)
    if status == "failed":
        return ProgressStep("Decision", status, _why(passage, ()), None, at, took)
    who = approval.decided_by if approval else None
    approved = approval is not None and approval.status is ApprovalStatus.APPROVED
    words = (approval.reason if approval and approved else "") or ""
    return ProgressStep("Decision", status, words, who if approved else None, at, took)


def _end(passage: Passage) -> list[ProgressStep]:
    state, times = passage.state, passage.times
    public = times.get(SubmissionState.PUBLISHED)
    if state is SubmissionState.PUBLISHED:
        return [ProgressStep("Published", "done", "Everybody who has the link sees it.", at=public)]
    if state is SubmissionState.WITHDRAWN:
        reason = passage.last.get("reason") or "Nobody sees it any more."
        took = passage.took(SubmissionState.PUBLISHED)
        return [
            ProgressStep("Published", "done", "", None, public, took),
            ProgressStep("Withdrawn", "ended", reason, at=times.get(state)),
        ]
    if state is not SubmissionState.REJECTED:
        return [ProgressStep("Published", "next", "Everybody who has the link will see it.")]
    if passage.called_off:
        return [ProgressStep("Ended", "ended", _why(passage, ()), at=times.get(state))]
    return [ProgressStep("Published", "skipped", "It is not published.")]


def _kind(facts: Mapping[str, Any]) -> str:
    actor = facts.get("actor")
    return str(actor.get("type")) if isinstance(actor, dict) else ""


def length(ms: int) -> str:
    return "less than a second" if ms < _SECOND_MS else duration(ms / _SECOND_MS)


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
