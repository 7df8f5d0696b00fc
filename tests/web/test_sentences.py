"""What lines of history say: each type in its own words, and never a failure."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, PackageLoader, StrictUndefined

from gates.told import told_types
from points import sources
from safelight.infra.history import SYSTEM, Activity, Line
from safelight.infra.injected import iso
from safelight.live.messages import FOR_ADMINS, INNER
from safelight.submissions.lifecycle import SubmissionState
from safelight.web.sentences import SAYINGS, address_of, joined, sentence_of
from safelight.wiring import MESSAGES

NOW = 1_780_000_000_000
TODAY = "2026-05-28 20:26 UTC"
ANA = {"type": "user", "name": "ana"}
BUCKET = {"type": "event", "name": "s3"}
AWAY = {"code": "UNAVAILABLE", "message": "The provider did not answer."}
BEATEN = {"eventTime": iso(NOW), "idempotencyKey": "k"}


def told(kind: str, subject: str = "upload:a.jpg", /, **data: Any) -> str:
    return sentence_of(Activity(1, kind, NOW, data, subject)).text


def test_every_type_has_a_sentence_of_its_own() -> None:
    known = told_types(sources()) | {*MESSAGES.types, *INNER, *FOR_ADMINS}
    assert sorted(known - SAYINGS.keys()) == []
    assert len({sentence_of(Line("x:1", kind)).text for kind in known}) > len(known) - 5


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("image_uploaded", {"actor": ANA}, "Ana sent it."),
        ("image_uploaded", {"actor": ANA, "reason": "sent as 'a/b', kept as b"},
         "Ana sent it, sent as 'a/b', kept as b."),
        ("image_uploaded", {"from": "FAILED", "reason": "the machine is back"},
         "It is taken up again: the machine is back."),
        ("upload_ingested", {"sizeBytes": 3_355_443, "actor": ANA}, "Ana uploaded it (3.2 MB)."),
        ("upload_ingested", {"sizeBytes": 900}, "It was received whole (900 B)."),
        ("upload_ingested", {"actor": {"type": "token", "name": "ci"}},
         "The token “ci” uploaded it."),
        ("upload_stored", {"eventTime": iso(NOW)}, "The original is stored."),
        ("image_superseded", {"reason": "superseded", "beatenBy": BEATEN},
         (f"It was stored, but a newer upload of the same name ({TODAY}) had already been taken: "
         "it does not appear in the library.")),
        ("image_superseded", {"reason": "deleted", "beatenBy": BEATEN},
         (f"It was stored, but its name had been deleted meanwhile ({TODAY}): "
         "it does not appear in the library.")),
        ("upload_failed", {"error": {"code": "X", "message": "The disk is full."}},
         "It could not be stored. The disk is full."),
        ("upload_failed", {"error": AWAY, "actor": ANA},
         "Ana gave up the machine that held it. The provider did not answer."),
        ("offload_attempt", {"attempt": 2, "error": AWAY},
         ("It could not be stored yet (attempt 2); that is tried again by itself. "
         "The provider did not answer.")),
        ("event_received", {"reason": "created", "actor": BUCKET},
         "The bucket (s3) told that it is in the store."),
        ("event_received", {"reason": "deleted", "actor": {"type": "event", "name": "safelight"}},
         "Safelight told that it was deleted."),
        ("classification_workflow_skipped",
         {"reason": "stale", "eventTime": iso(NOW - 60_000), "beatenBy": BEATEN},
         ("An event of 2026-05-28 20:25 UTC came and was left aside: the newer one of "
         f"{TODAY} had already been taken.")),
        ("classification_workflow_skipped", {"reason": "duplicate", "beatenBy": BEATEN},
         ("A second event for the same upload came and was left aside: "
         f"the same event of {TODAY} had been taken before.")),
        ("event_dropped", {"reason": "object_missing"},
         "An event came and was left aside: what it tells of is not in the store any more."),
        ("event_dropped", {"reason": "brand_new"},
         "An event came and was left aside: brand new."),
        ("classification_workflow_started", {"run": 1},
         "It is in the library, and its label is being found."),
        ("classification_workflow_started", {"run": 2}, "Classifying began anew."),
        ("run_attempt", {"attempt": 1}, "The picture was looked at."),
        ("run_attempt", {"attempt": 3, "error": AWAY},
         "Looking for its label failed (attempt 3). The provider did not answer."),
        ("run_dropped", {"reason": "superseded", "beatenBy": BEATEN},
         f"Classifying it was stopped: a newer upload of the name came at {TODAY}."),
        ("run_dropped", {"reason": "lost"}, "Classifying it stopped without a word."),
        ("run_dropped", {"reason": "the entry has moved on"},
         "What classifying it found is not needed: the entry has moved on."),
        ("classification_updated",
         {"classificationLabel": "ESPRESSO", "classificationScore": 0.81,
          "classificationModel": "lite0@579344248a93"},
         "Labelled espresso, 81 % sure, by lite0."),
        ("classification_updated", {"classificationLabel": "cat", "classificationScore": 0.999},
         "Labelled cat, > 99 % sure."),
        ("classification_error", {"error": AWAY, "final": True},
         "It has no label. The provider did not answer."),
        ("classification_error", {"error": AWAY, "final": False, "attempt": 2},
         ("Its label has to wait (attempt 2); that is tried again by itself. "
         "The provider did not answer.")),
        ("classification_asked", {"actor": ANA}, "Ana asked for a new label."),
        ("upload_delete_requested", {"actor": ANA}, "Ana deleted it."),
        ("upload_deleted", {}, "It is gone from the library."),
        ("upload_deleted", {"reason": "retention"}, "It is gone: its time was over."),
        ("upload_expired", {"reason": "Originals are kept for a day here.", "actor": SYSTEM},
         "Originals are kept for a day here."),
        ("retention_changed", {"actor": ANA, "days": 30},
         "Ana set that originals are kept for 30 days."),
        ("reclassification_asked", {"actor": ANA, "total": 1200, "label": "cat"},
         "Ana asked to classify 1,200 images labelled “cat” anew."),
        ("submission_retried", {"nextRetryAfter": iso(NOW)},
         f"Safelight began the checks anew. If that does not help, the next try is at {TODAY}."),
        ("approval_requested", {"title": "Publish it?", "actor": ANA},
         "Ana asks for a decision: “Publish it?”."),
        ("approval_approved", {"title": "Publish it?", "actor": ANA, "reason": "fine"},
         "Ana approved “Publish it?”. Fine."),
        ("approval_rejected", {"title": "T", "actor": SYSTEM, "reason": "expired"},
         "Nobody decided in time, so it is a no to “T”."),
        ("approval_rejected", {"title": "T", "actor": ANA, "reason": "Too dark."},
         "Ana said no to “T”. Too dark."),
        ("blocklist_added", {"actor": ANA, "note": "a logo"}, "Ana ruled out a picture. A logo."),
        ("generation_started", {"actor": ANA, "count": 4, "kind": "image", "model": "flux"},
         "Ana asked for 4 images made by “flux”."),
        ("task_attempt", {"error": AWAY, "reason": "next attempt in 60.0 s"},
         ("The provider could not do it this time. The provider did not answer. "
         "The next try is at 2026-05-28 20:27 UTC.")),
        ("webhook_ignored", {"reason": "its task is over"},
         "A word of the provider was left aside: its task is over."),
        ("generation_finished", {"status": "failed"}, "It is over, and nothing came of it."),
        ("generation_finished", {"status": "ready", "artifactCount": 1},
         "It is ready, with 1 artifact."),
        ("job_dead", {"kind": "classification.run", "error": AWAY},
         "Finding its label was given up; a person has to look. The provider did not answer."),
        ("job_redriven", {"kind": "classification.run", "actor": ANA},
         "Ana had it tried again: finding its label."),
        ("job_redriven", {"kind": "new.kind"}, "Somebody had it tried again: the work new.kind."),
    ],
)  # fmt: skip
def test_the_words(kind: str, data: dict[str, Any], words: str) -> None:
    assert told(kind, **data) == words


@pytest.mark.parametrize(
    ("kind", "subject", "data", "words"),
    [
        ("run_attempt", "submission:sub_1", {"attempt": 2, "error": AWAY},
         ("Checking it stopped (attempt 2) and is begun anew by itself. "
         "The provider did not answer.")),
        ("member_put", "user:bo", {"actor": ANA, "role": "member"},
         "Ana gave bo the role member."),
        ("member_put", "user:ana", {"actor": ANA, "role": "admin"}, "Ana joined as admin."),
        ("member_removed", "user:bo", {"actor": {"type": "system", "name": "command line"}},
         "Somebody at the command line ended the membership of bo."),
        ("token_made", "token:tok_1", {"actor": ANA, "name": "ci", "role": "member"},
         "Ana made the token “ci” as member."),
        ("organization_made", "organization:lab", {"actor": ANA},
         "Ana made the organization lab."),
    ],
)  # fmt: skip
def test_the_words_of_a_subject(kind: str, subject: str, data: dict[str, Any], words: str) -> None:
    assert told(kind, subject, **data) == words


def test_each_state_of_a_submission_has_words() -> None:
    moves = {
        state: told("submission_state_changed", to=state, actor=ANA) for state in SubmissionState
    }
    assert len(set(moves.values())) == len(SubmissionState)
    assert moves[SubmissionState.RECEIVED] == "Ana asked to publish it."
    error = {"code": "POLICY", "message": "It is a logo."}
    rejected = sentence_of(
        Line("submission:s", "submission_state_changed",
             {"to": "REJECTED", "actor": SYSTEM, "error": error, "reason": "It is a logo."})
    )  # fmt: skip
    assert (rejected.text, rejected.tone, rejected.code) == (
        "It was rejected. It is a logo.", "problem", "POLICY",
    )  # fmt: skip
    assert told("submission_state_changed", to="TIER3_SCANNING") == "It went on: tier3 scanning."


def test_one_of_a_newer_version_is_told_in_its_own_words() -> None:
    found = sentence_of(Activity(1, "upload_polished", NOW, {"reason": "dull", "error": AWAY}))
    assert found.text == "Upload polished. Dull. The provider did not answer."
    assert (found.inner, found.code) == (False, "UNAVAILABLE")
    assert sentence_of(Line("", "")).text == "Something happened."


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(
        ["stale", "FAILED", "REJECTED", iso(NOW), "9999-12-31T23:59:59-12:00", "next attempt in 1 s"]
    ),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "actor",
        "error",
        "reason",
        "beatenBy",
        "attempt",
        "run",
        "to",
        "from",
        "title",
        "name",
        "role",
        "days",
        "total",
        "label",
        "count",
        "kind",
        "model",
        "sizeBytes",
        "eventTime",
        "nextRetryAfter",
        "classificationLabel",
        "classificationScore",
        "note",
        "artifactCount",
        "status",
        "contentType",
        "final",
    ]
)
DATA = st.dictionaries(KEYS, ANYTHING, max_size=8)


@given(kind=st.sampled_from(sorted(SAYINGS)) | st.text(), data=DATA | ANYTHING, subject=st.text())
def test_nothing_that_a_line_can_hold_fails(kind: str, data: Any, subject: str) -> None:
    line = Activity(1, kind, NOW, data, subject)
    found = sentence_of(line)
    assert found.text
    assert found.text[-1] in ".?!…"
    assert not re.search("[\x00-\x1f\u202e]", found.text)
    assert found.tone in {"plain", "accent", "good", "problem"}
    joined([line])
    address_of(subject, "default")


@pytest.fixture(scope="module")
def pieces() -> Any:
    templates = Environment(
        loader=PackageLoader("safelight.web"), undefined=StrictUndefined, autoescape=True
    )
    templates.filters["iso"] = iso
    return templates.get_template("_pieces.html").module


def test_every_icon_is_drawn(pieces: Any) -> None:
    used = {sentence_of(Line("x:1", kind)).icon for kind in SAYINGS}
    assert used - set(pieces.shapes) == set()


def test_a_page_shows_one_as_one_line_and_nothing_of_it_is_markup(pieces: Any) -> None:
    line = Line("approval:a", "approval_requested", {"title": "<b>x</b>", "actor": ANA})
    assert str(pieces.sentence(sentence_of(line))).strip() == (
        '<bdi class="anywhere">Ana</bdi> asks for a decision: '
        '<bdi class="anywhere">“&lt;b&gt;x&lt;/b&gt;”</bdi>.'
    )
    again = Line("submission:s", "submission_retried", {"nextRetryAfter": iso(NOW)})
    assert f'datetime="{iso(NOW)}"' in str(pieces.sentence(sentence_of(again)))


def test_moments_and_names_stand_apart_for_a_page() -> None:
    line = Line(
        "upload:a", "classification_workflow_skipped", {"reason": "stale", "beatenBy": BEATEN}
    )
    assert [part.at for part in sentence_of(line).parts if part.at] == [NOW]
    asked = sentence_of(
        Line("upload:a", "approval_requested", {"title": "<b>\u202eא", "actor": ANA})
    )
    assert [part.text for part in asked.parts if part.is_name] == ["Ana", "“<b> א”"]


def test_long_words_are_cut() -> None:
    assert len(told("blocklist_added", actor=ANA, note="x" * 5000)) < 500


@pytest.mark.parametrize(
    ("subject", "path"),
    [
        ("image:img_1", "/app/lab/images/img_1"),
        ("upload:a b/?#%2F.jpg", "/app/lab/images?name=a%20b%2F%3F%23%252F.jpg"),
        ("submission:sub_1", "/submit/sub_1"),
        ("approval:apr_1", "/app/lab/workflow#apr_1"),
        ("user:ana", "/app/lab/settings"),
        ("quotas", "/app/lab/settings"),
        ("reclassification:rec_1", None),
        ("job:5", None),
        ("image:", None),
        ("", None),
    ],
)
def test_addresses(subject: str, path: str | None) -> None:
    assert address_of(subject, "lab") == path


def test_an_upload_is_said_once() -> None:
    lines = [
        Activity(1, "image_uploaded", NOW, {"to": "UPLOADED", "actor": ANA}),
        Activity(2, "upload_ingested", NOW, {"sizeBytes": 900}),
        Activity(3, "upload_stored", NOW + 5, {}),
    ]
    assert [sentence_of(line).text for line in joined(lines)] == [
        "Ana uploaded it (900 B).", "The original is stored.",
    ]  # fmt: skip
    assert [line.seq for line in joined(lines[:1])] == [1]
    assert [line.seq for line in joined(lines[1:])] == [2, 3]
