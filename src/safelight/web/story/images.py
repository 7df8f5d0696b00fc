"""What is told of an image: how it came, what became of it, its label, its end. Pure."""

from collections.abc import Mapping
from typing import Final

from safelight.web.gallery.card import readable_size
from safelight.web.story.words import (
    Piece,
    Saying,
    Sentence,
    SentencePart,
    Telling,
    counted,
    percent,
    said,
)

# What was stronger than an event that was left aside; of some it is told when that had come.
_BEATEN: Final = {
    "stale": ("the newer one", "had already been taken"),
    "superseded": ("a newer upload", "has the name by now"),
    "duplicate": ("the same event", "had been taken before"),
    "same_upload": ("the same upload", "had been taken before"),
    "object_present": ("what the store holds", "came after it"),
}
_USELESS: Final = {
    "object_missing": "what it tells of is not in the store any more",
    "unusable_metadata": "it does not say which upload it is",
    "no_entry": "the library has nothing of that name",
}
_ONE: Final = 1


# Arriving


def _uploaded(told: Telling) -> Sentence:
    if told.text("from") == "FAILED":
        why = told.reason or "what was missing is back"
        return said(f"It is taken up again: {why}", icon="back")
    sent = f", {told.reason}" if told.reason else ""
    return said(told.who, " sent it", sent, icon="upload", inner=True)


def _ingested(told: Telling) -> Sentence:
    size = told.count("sizeBytes")
    words = "" if size is None else f" ({readable_size(size)})"
    if told.inside("actor"):
        return said(told.who, " uploaded it", words, icon="upload")
    return said("It was received whole", words, icon="inbox")


def _stored(_: Telling) -> Sentence:
    return said("The original is stored", icon="archive")


def _superseded(told: Telling) -> Sentence:
    if told.reason == "deleted":
        return said("It was stored, but its name had been deleted meanwhile", _of(told),
                    ": it does not appear in the library", icon="archive")  # fmt: skip
    return said("It was stored, but a newer upload of the same name", _of(told),
                " had already been taken: it does not appear in the library",
                icon="archive")  # fmt: skip


def _not_stored(told: Telling) -> Sentence:
    if told.by_person:
        return said(told.who, " gave up the machine that held it.", told.error,
                    icon="alert", tone="problem", code=told.code)  # fmt: skip
    return said("It could not be stored.", told.error,
                icon="alert", tone="problem", code=told.code)  # fmt: skip


def _not_stored_yet(told: Telling) -> Sentence:
    return said("It could not be stored yet", _attempt(told), "; that is tried again by itself.",
                told.error, icon="loop", tone="plain", inner=True, code=told.code)  # fmt: skip


# Events


def _heard(told: Telling) -> Sentence:
    deleted = told.reason == "deleted"
    words = " told that it was deleted" if deleted else " told that it is in the store"
    return said(told.who, words, icon="inbox", inner=True)


def _left_aside(told: Telling) -> Sentence:
    when = told.moment("eventTime")
    of = (" of ", when) if when else ("", None)
    if told.reason == "duplicate":
        return said("A second event for the same upload came and was left aside", *_because(told),
                    icon="inbox", inner=told.type == "event_dropped")  # fmt: skip
    return said("An event", *of, " came and was left aside", *_because(told),
                icon="inbox", inner=told.type == "event_dropped")  # fmt: skip


def _because(told: Telling) -> tuple[Piece, ...]:
    if told.reason in _BEATEN:
        what, did = _BEATEN[told.reason]
        return (f": {what}", *_of_moment(told.beaten_by), f" {did}")
    words = _USELESS.get(told.reason) or told.reason.replace("_", " ")
    return (f": {words}" if words else "",)


def _of(told: Telling) -> SentencePart | str:
    """When what was stronger had come, in brackets."""
    when = told.beaten_by
    return "" if when is None else SentencePart(f" ({when.text})", at=when.at)


def _of_moment(when: SentencePart | None) -> tuple[Piece, ...]:
    return (" of ", when) if when else ()


# The label


def _run_began(told: Telling) -> Sentence:
    run = told.count("run")
    if run is not None and run > _ONE:
        return said("Classifying began anew", icon="loop", tone="plain")
    return said("It is in the library, and its label is being found", icon="library")


def _tried(told: Telling) -> Sentence:
    """Of a run for a label, or of a submission's checks: both are told by this name."""
    if told.subject.startswith("submission:"):
        return said("Checking it stopped", _attempt(told), " and is begun anew by itself.",
                    told.error, icon="loop", tone="plain", code=told.code)  # fmt: skip
    if told.inside("error"):
        return said("Looking for its label failed", _attempt(told), ".", told.error,
                    icon="loop", inner=True, code=told.code)  # fmt: skip
    return said("The picture was looked at", _attempt(told), icon="loop", inner=True)


def _labelled(told: Telling) -> Sentence:
    score, label = told.number("classificationScore"), told.name("classificationLabel")
    sure = f", {percent(score)} sure" if score is not None and 0 <= score <= _ONE else ""
    model = told.text("classificationModel").partition("@")[0]  # its weights are for machines
    by = f", by {model}" if model else ""
    if label is None:
        return said("It got its label", by, icon="tag", tone="good")
    return said("Labelled ", SentencePart(label.text[1:-1].lower(), is_name=True), sure, by,
                icon="tag", tone="good")  # fmt: skip


def _not_labelled(told: Telling) -> Sentence:
    if told.facts.get("final") is True:
        return said("It has no label.", told.error,
                    icon="alert", tone="problem", code=told.code)  # fmt: skip
    return said("Its label has to wait", _attempt(told), "; that is tried again by itself.",
                told.error, icon="loop", tone="plain", code=told.code)  # fmt: skip


def _in_vain(told: Telling) -> Sentence:
    reason = told.reason
    if reason == "lost":
        return said("Classifying it stopped without a word", icon="loop", inner=True)
    if reason == "superseded":
        return said("Classifying it was stopped: a newer upload of the name", *_came(told),
                    icon="archive", inner=True)  # fmt: skip
    if reason == "deleted":
        return said("Classifying it was stopped: it was deleted", *_when(told),
                    icon="archive", inner=True)  # fmt: skip
    words = f": {reason}" if reason else "."
    return said("What classifying it found is not needed", words, told.error,
                icon="archive", inner=True, code=told.code)  # fmt: skip


def _came(told: Telling) -> tuple[Piece, ...]:
    return (" came at ", told.beaten_by) if told.beaten_by else (" came",)


def _when(told: Telling) -> tuple[Piece, ...]:
    return (" at ", told.beaten_by) if told.beaten_by else ()


def _asked_anew(told: Telling) -> Sentence:
    return said(told.who, " asked for a new label", icon="loop")


# Its end, and its keeping


def _wanted_gone(told: Telling) -> Sentence:
    return said(told.who, " deleted it", icon="bin")


def _gone(told: Telling) -> Sentence:
    if told.reason == "retention":
        return said("It is gone: its time was over", icon="bin")
    if told.reason == "no_entry":
        return said("It is gone, before it came into the library", icon="bin")
    return said("It is gone from the library", icon="bin")


def _not_gone(told: Telling) -> Sentence:
    return said("It could not be deleted.", told.error,
                icon="alert", tone="problem", code=told.code)  # fmt: skip


def _expired(told: Telling) -> Sentence:
    return said(told.reason or "Its time was over: removed by retention", icon="bin")


def _put_right(told: Telling) -> Sentence:
    return said(told.reason or "Store and library differed, and were put right", icon="back")


def _damaged(told: Telling) -> Sentence:
    return said("Its stored original was found damaged.", told.error,
                icon="alert", tone="problem", code=told.code)  # fmt: skip


def _healed(_: Telling) -> Sentence:
    return said("Its stored original is whole again", icon="check", tone="good")


def _kept_for(told: Telling) -> Sentence:
    days = told.count("days")
    words = "without a limit" if days is None else f"for {counted(days, 'day')}"
    return said(told.who, f" set that originals are kept {words}", icon="settings")


# Many at once


def _many_asked(told: Telling) -> Sentence:
    total, label = told.count("total"), told.name("label")
    what = "images" if total is None else counted(total, "image")
    labelled = (" labelled ", label) if label else ()
    return said(told.who, f" asked to classify {what}", *labelled, " anew", icon="loop")


def _many_stopped(told: Telling) -> Sentence:
    return said(told.who, " stopped classifying anew", icon="pause")


def _many_done(_: Telling) -> Sentence:
    return said("Classifying anew is done", icon="check", tone="good")


def _attempt(told: Telling) -> str:
    attempt = told.count("attempt")
    return "" if attempt is None or attempt <= _ONE else f" (attempt {attempt})"


SAYINGS: Final[Mapping[str, Saying]] = {
    "image_uploaded": _uploaded,
    "upload_ingested": _ingested,
    "upload_stored": _stored,
    "image_superseded": _superseded,
    "upload_failed": _not_stored,
    "image_failed": _not_stored,
    "offload_attempt": _not_stored_yet,
    "event_received": _heard,
    "event_dropped": _left_aside,
    "classification_workflow_skipped": _left_aside,
    "classification_workflow_started": _run_began,
    "run_attempt": _tried,
    "run_dropped": _in_vain,
    "classification_updated": _labelled,
    "classification_error": _not_labelled,
    "classification_asked": _asked_anew,
    "upload_delete_requested": _wanted_gone,
    "upload_deleted": _gone,
    "upload_delete_error": _not_gone,
    "upload_expired": _expired,
    "upload_reconciled": _put_right,
    "original_damaged": _damaged,
    "original_healed": _healed,
    "retention_changed": _kept_for,
    "reclassification_asked": _many_asked,
    "reclassification_cancelled": _many_stopped,
    "reclassification_done": _many_done,
}
