"""What is told of an organization itself: who belongs to it, its tokens and limits, and work that
gave up. Pure."""

from collections.abc import Mapping
from typing import Final

from safelight.web.story.words import Piece, Saying, Sentence, SentencePart, Telling, behind, said

# What a job was to do, by its kind.
_WORK: Final = {
    "ingest.offload": "Storing it",
    "ingest.put_back": "Putting it back into the bucket",
    "objects.deliver": "Taking it into the library",
    "objects.rejected": "Reading an event of the bucket",
    "classification.run": "Finding its label",
    "classification.draw": "Drawing its thumbnail",
    "classification.reclassify": "Classifying anew",
    "submissions.process": "Checking it for publication",
    "submissions.release": "Clearing up behind a submission",
    "submissions.source_gone": "Ending what was submitted from it",
    "submissions.take_down": "Taking down what was ruled out",
    "generations.alarm": "Ending a generation in time",
    "generations.stop": "Stopping it at the provider",
    "generations.deliver": "Delivering what was made",
    # By the clock
    "ingest.sweep": "Looking for uploads that were left lying",
    "objects.pull": "Fetching the bucket's events",
    "objects.collect": "Clearing up files that nobody needs",
    "objects.scrub": "Looking for damaged originals",
    "objects.settle": "Settling writes that were in doubt",
    "objects.tidy": "Tidying the store",
    "objects.abort": "Ending uploads to the bucket that were broken off",
    "library.reconcile": "Comparing store and library",
    "library.collect_thumbnails": "Clearing up thumbnails",
    "library.retain": "Removing what has had its time",
    "classification.backfill": "Making up for missing thumbnails",
    "classification.compare": "Looking for images that look alike",
    "classification.forget": "Forgetting old labels",
    "generations.purge": "Forgetting old generations",
    "generations.orphans": "Looking for generations that nobody watches",
    "approvals.expire": "Ending questions that nobody decided",
    "submissions.recover": "Starting stuck submissions again",
    "quotas.fold": "Adding up what organizations use",
    "admin.upkeep": "Keeping house",
}


def work_in_words(kind: str) -> str:
    """What a job of a kind is to do. Each provider has a kind of its own."""
    if kind not in _WORK and kind.startswith("generations."):
        return "Asking the provider for a picture"
    return _WORK.get(kind) or (f"The work {kind}" if kind else "A piece of work")


def _work(told: Telling) -> str:
    return work_in_words(told.text("kind"))


def _gave_up(told: Telling) -> Sentence:
    return said(f"{_work(told)} was given up; a person has to look.", told.error,
                icon="alert", tone="problem", code=told.code)  # fmt: skip


def _redriven(told: Telling) -> Sentence:
    return said(told.who, " had it tried again: ", _lower(_work(told)), icon="loop", tone="plain")


def _discarded(told: Telling) -> Sentence:
    return said(told.who, " gave it up for good: ", _lower(_work(told)), ".", behind(told.reason),
                icon="bin")  # fmt: skip


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


# Members and tokens


def _member(told: Telling) -> SentencePart:
    return SentencePart(told.subject_id or "somebody", is_name=True)


def _role(told: Telling) -> Piece:
    role = told.text("role")
    return f" as {role}" if role else None


def _put(told: Telling) -> Sentence:
    if told.inside("actor").get("name") == told.subject_id:
        return said(told.who, " joined", _role(told), icon="person", tone="good")
    role = told.text("role") or "member"
    return said(told.who, " gave ", _member(told), f" the role {role}", icon="person")


def _invited(told: Telling) -> Sentence:
    return said(told.who, " invited ", _member(told), _role(told), icon="person")


def _withdrew(told: Telling) -> Sentence:
    return said(told.who, " withdrew the invitation of ", _member(told), icon="person")


def _declined(told: Telling) -> Sentence:
    return said(told.who, " declined the invitation", icon="person")


def _left(told: Telling) -> Sentence:
    if told.inside("actor").get("name") == told.subject_id:
        return said(told.who, " left", icon="person")
    return said(told.who, " ended the membership of ", _member(told), icon="person")


def _token_made(told: Telling) -> Sentence:
    return said(told.who, " made the token ", told.name("name"), _role(told), icon="settings")


def _token_revoked(told: Telling) -> Sentence:
    return said(told.who, " revoked the token ", told.name("name"), icon="settings")


def _opened(told: Telling) -> Sentence:
    return said(told.who, " made the organization ", _member(told), icon="settings")


def _closed(told: Telling) -> Sentence:
    return said(told.who, " closed the organization: nobody gets in any more", icon="settings")


def _limits(told: Telling) -> Sentence:
    return said(told.who, " changed what the organization may use", icon="settings")


SAYINGS: Final[Mapping[str, Saying]] = {
    "job_dead": _gave_up,
    "job_redriven": _redriven,
    "job_discarded": _discarded,
    "member_put": _put,
    "member_invited": _invited,
    "member_invitation_withdrawn": _withdrew,
    "member_invitation_declined": _declined,
    "member_removed": _left,
    "token_made": _token_made,
    "token_revoked": _token_revoked,
    "organization_made": _opened,
    "organization_closed": _closed,
    "quotas_changed": _limits,
}
