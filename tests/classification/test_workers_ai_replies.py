"""What answers mean, without a network."""

import json
from typing import Any

import pytest

from safelight.classification.base import ModelError
from safelight.classification.workers_ai_replies import read

NOON = 1_800_014_400_000  # 2027-01-15T12:00:00Z


def answer(entries: Any) -> bytes:
    return json.dumps({"result": entries, "success": True, "errors": []}).encode()


def refused(status: int, body: bytes, hint: str | None = None) -> ModelError:
    with pytest.raises(ModelError) as refusal:
        read(status, body, hint, NOON)
    return refusal.value


def error(code: Any, message: Any = "why", key: str = "errors") -> bytes:
    return json.dumps({"success": False, key: [{"code": code, "message": message}]}).encode()


def test_the_highest_score_wins_whatever_the_order() -> None:
    entries = [
        {"label": "tabby, tabby cat", "score": 0.2},
        {"label": "Egyptian cat", "score": 0.7},
        {"label": "LYNX", "score": 0.1},
    ]
    assert read(200, answer(entries), None, NOON) == ("EGYPTIAN CAT", 0.7)
    assert read(200, json.dumps(entries[:1]).encode(), None, NOON) == ("TABBY", 0.2)


@pytest.mark.parametrize("score", [0, 1, 0.0, 1.0])
def test_the_ends_of_the_scale_are_scores(score: float) -> None:
    assert read(200, answer([{"label": "A", "score": score}]), None, NOON) == ("A", float(score))


@pytest.mark.parametrize(
    "entries",
    [
        [],
        None,
        {},
        "PERSIAN CAT",
        [None],
        ["PERSIAN CAT"],
        [{}],
        [{"label": "CAT"}],
        [{"score": 0.5}],
        [{"label": "CAT", "score": 0.4}, {"label": "DOG"}],
        [{"label": "CAT", "score": "0.5"}],
        [{"label": "CAT", "score": True}],
        [{"label": "CAT", "score": 1.5}],
        [{"label": "CAT", "score": -0.1}],
        [{"label": "CAT", "score": float("nan")}],
        [{"label": "CAT", "score": float("inf")}],
        [{"label": "", "score": 0.5}],
        [{"label": " , ", "score": 0.5}],
        [{"label": "C\u0000AT", "score": 0.5}],
        [{"label": "CAT\nSCORE", "score": 0.5}],
        [{"label": "\u202eTAC", "score": 0.5}],
        [{"label": "C" * 101, "score": 0.5}],
        [{"label": ["CAT"], "score": 0.5}],
    ],
)
def test_an_answer_that_cannot_be_believed_is_the_models_fault(entries: Any) -> None:
    error = refused(200, answer(entries))
    assert not error.permanent
    assert error.retry_after is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"result":[{"label":"CAT","sc', b"<html>", b"\xff\xfe", b"[" * 60_000]
)
def test_an_answer_that_is_no_json_is_the_models_fault(body: bytes) -> None:
    assert "JSON" in refused(200, body).message


def test_the_days_allowance_is_spent_until_midnight() -> None:
    found = refused(429, error(3036, "you have used up your daily free allocation"))
    assert not found.permanent
    assert found.retry_after == 12 * 3600 + 60
    assert "3036" in found.message


@pytest.mark.parametrize(
    ("status", "body", "hint", "wait"),
    [
        (429, error(3040), None, 10),
        (429, error(3040), "7", 7),
        (429, error(3040), "Fri, 15 Jan 2027 12:00:30 GMT", 30),
        (429, error(3040), "Fri, 15 Jan 2027 11:00:00 GMT", 10),
        (429, error(3040), "99999999", 3600),
        (429, error(3040), "soon", 10),
        (429, error(3040), "-5", 10),
        (429, b"slow down", None, 10),
        (429, error(2003, key="error"), None, 10),
        (400, error(3040), None, 10),
        (503, b"<html>", "20", 20),
    ],
)
def test_too_much_at_once_says_when_to_come_back(
    status: int, body: bytes, hint: str | None, wait: float
) -> None:
    found = refused(status, body, hint)
    assert found.retry_after == wait
    assert not found.permanent


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520, 530])
def test_what_may_pass_is_worth_another_try(status: int) -> None:
    found = refused(status, error(3007))
    assert not found.permanent
    assert found.retry_after is None


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 5006), (401, 10000), (403, 3041), (404, 3042), (405, 5019), (413, 3006)],
)
def test_what_cannot_pass_is_permanent(status: int, code: int) -> None:
    found = refused(status, error(code))
    assert found.permanent
    assert str(status) in found.message
    assert str(code) in found.message


def test_a_refusal_without_a_token_names_the_setting() -> None:
    assert "SAFELIGHT_WORKERS_AI_TOKEN" in refused(401, error(10000)).message


@pytest.mark.parametrize("status", [301, 302, 307, 204])
def test_other_answers_are_not_followed(status: int) -> None:
    assert refused(status, b"").permanent


@pytest.mark.parametrize(
    "body",
    [
        b'{"errors": "text"}',
        b'{"errors": [null]}',
        b'{"errors": [{"code": "3036"}]}',
        b'{"error": {"code": 1, "message": 7}}',
        b"null",
        b"[]",
    ],
)
def test_a_refusal_in_an_unknown_shape_is_still_one(body: bytes) -> None:
    assert refused(500, body).message.startswith("Workers AI answered 500")


def test_a_vendors_words_are_kept_short_and_on_one_line() -> None:
    found = refused(500, error(1, "long\n" * 1000))
    assert len(found.message) < 300
    assert "\n" not in found.message


def test_success_may_be_false_with_status_200() -> None:
    assert refused(200, error(3036)).retry_after == 12 * 3600 + 60
    assert not refused(200, error(5000)).permanent
