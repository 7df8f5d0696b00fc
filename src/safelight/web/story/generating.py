"""What is told of a generation and its artifacts. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from safelight.generations.lifecycle import GenerationStatus
from safelight.web.story.words import (
    Piece,
    Saying,
    Sentence,
    Telling,
    behind,
    counted,
    moment,
    said,
)

_SOON = re.compile(r"next attempt in (\d{1,9}(?:\.\d+)?) s")


def _started(told: Telling) -> Sentence:
    count, model = told.count("count"), told.name("model")
    kind = told.text("kind") or "artifact"
    what = f" asked for {kind}s" if count is None else f" asked for {counted(count, kind)}"
    made = (" made by ", model) if model else ()
    return said(told.who, what, *made, icon="spark")


def _ready(told: Telling) -> Sentence:
    kind = "video" if told.text("contentType").startswith("video/") else "picture"
    return said(f"A {kind} is ready", icon="picture", tone="good")


def _failed(told: Telling) -> Sentence:
    return said("One could not be made.", told.error,
                icon="alert", tone="problem", code=told.code)  # fmt: skip


def _finished(told: Telling) -> Sentence:
    count = told.count("artifactCount")
    if told.text("status") == GenerationStatus.FAILED:
        return said("It is over, and nothing came of it", icon="cross", tone="problem")
    of_it = "" if count is None else f", with {counted(count, 'artifact')}"
    return said("It is ready", of_it, icon="check", tone="good")


def _tried(told: Telling) -> Sentence:
    return said("The provider could not do it this time.", told.error, *_next_try(told),
                icon="loop", tone="plain", inner=True, code=told.code)  # fmt: skip


def _next_try(told: Telling) -> tuple[Piece, ...]:
    found = _SOON.fullmatch(told.reason)
    due = moment(told.at + round(float(found[1]) * 1000)) if found and told.at else None
    return (" The next try is at ", due, ".") if due else (behind(told.reason),)


def _delivered(_: Telling) -> Sentence:
    return said("The provider delivered one", icon="inbox", inner=True)


def _ignored(told: Telling) -> Sentence:
    why = f": {told.reason}" if told.reason else ""
    return said("A word of the provider was left aside", why, icon="inbox", inner=True)


def _timed_out(_: Telling) -> Sentence:
    return said("Its time was over; what had not come by then is not waited for", icon="clock")


def _cancelled(told: Telling) -> Sentence:
    return said(told.who, " cancelled it", icon="pause")


def _deleted(told: Telling) -> Sentence:
    return said(told.who, " deleted one of its artifacts", icon="bin")


SAYINGS: Final[Mapping[str, Saying]] = {
    "generation_started": _started,
    "artifact_ready": _ready,
    "artifact_failed": _failed,
    "generation_finished": _finished,
    "task_attempt": _tried,
    "webhook_accepted": _delivered,
    "webhook_ignored": _ignored,
    "generation_timed_out": _timed_out,
    "generation_cancelled": _cancelled,
    "artifact_deleted": _deleted,
}
