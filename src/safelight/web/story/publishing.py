"""What is told of a submission, and of the person who is asked about it. Pure."""

from collections.abc import Mapping
from typing import Final

from safelight.approvals.decide import EXPIRED
from safelight.submissions.lifecycle import RejectionCode, SubmissionState
from safelight.web.story.words import Saying, Sentence, SentencePart, Telling, behind, said


def _moved(told: Telling) -> Sentence:
    to = told.text("to")
    state = next((state for state in SubmissionState if state == to), None)
    if state is None:
        return said("It went on: ", to.replace("_", " ").lower() or "a step", icon="publish")
    return said(*_WORDS[state](told), icon=state.icon, tone=state.tone, code=told.code)


def _received(told: Telling) -> tuple[SentencePart | str, ...]:
    return (told.who, " asked to publish it")


def _awaiting(_: Telling) -> tuple[SentencePart | str, ...]:
    return ("The checks were not sure, so a person is asked",)


def _published(told: Telling) -> tuple[SentencePart | str, ...]:
    if told.by_person:
        return (told.who, " approved it, and it is public.", behind(told.reason))
    return ("The checks found nothing against it, and it is public",)


def _rejected(told: Telling) -> tuple[SentencePart | str, ...]:
    verb = " gave it up." if told.code == RejectionCode.STUCK_EXHAUSTED else " rejected it."
    who = (told.who, verb) if told.by_person else ("It was rejected.",)
    return (*who, told.error or behind(told.reason))


def _withdrawn(told: Telling) -> tuple[SentencePart | str, ...]:
    if told.by_person:
        return (told.who, " took it back: nobody sees it any more")
    return ("It was taken back, and nobody sees it any more.", behind(told.reason))


_WORDS: Final = {
    SubmissionState.RECEIVED: _received,
    SubmissionState.TIER1_SCANNING: lambda _: ("The file is being checked",),
    SubmissionState.TIER2_SCANNING: lambda _: ("The file is sound; its content is being checked",),
    SubmissionState.AWAITING_APPROVAL: _awaiting,
    SubmissionState.PUBLISHED: _published,
    SubmissionState.REJECTED: _rejected,
    SubmissionState.WITHDRAWN: _withdrawn,
}


def _retried(told: Telling) -> Sentence:
    due = told.moment("nextRetryAfter")
    until = (" If that does not help, the next try is at ", due, ".") if due else ()
    who = told.who if told.by_person else "Safelight"
    return said(who, " began the checks anew.", *until, icon="loop", tone="plain")


def _asked(told: Telling) -> Sentence:
    title = told.name("title")
    about = (": ", title) if title else ()
    return said(told.who, " asks for a decision", *about, icon="person", tone="accent")


def _approved(told: Telling) -> Sentence:
    return said(told.who, " approved", *_titled(told), ".", behind(told.reason),
                icon="check", tone="good")  # fmt: skip


def _declined(told: Telling) -> Sentence:
    if told.reason == EXPIRED:
        return said("Nobody decided in time, so it is a no", *_titled(told, " to "),
                    icon="clock", tone="problem")  # fmt: skip
    what = _titled(told, " to ") or (" to it",)
    return said(told.who, " said no", *what, ".", behind(told.reason),
                icon="cross", tone="problem")  # fmt: skip


def _titled(told: Telling, before: str = " ") -> tuple[SentencePart | str, ...]:
    title = told.name("title")
    return (before, title) if title else ()


def _policy(told: Telling) -> Sentence:
    return said(told.who, " changed what may be published", icon="settings")


def _blocked(told: Telling) -> Sentence:
    return said(told.who, " ruled out a picture.", behind(told.text("note")), icon="cross")


def _unblocked(told: Telling) -> Sentence:
    return said(told.who, " allowed a picture again that had been ruled out", icon="back")


SAYINGS: Final[Mapping[str, Saying]] = {
    "submission_state_changed": _moved,
    "submission_retried": _retried,
    "approval_requested": _asked,
    "approval_approved": _approved,
    "approval_rejected": _declined,
    "submission_policy_changed": _policy,
    "blocklist_added": _blocked,
    "blocklist_removed": _unblocked,
}
