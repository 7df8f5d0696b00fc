"""What answers mean, without a network."""

import json
from typing import Any

import pytest

from safelight.classification.base import ModelError
from safelight.classification.workers_ai_replies import read
from safelight.infra.away import is_away

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
    assert read(200, answer(entries), None, NOON) == (
        ("EGYPTIAN CAT", 0.7), ("TABBY", 0.2), ("LYNX", 0.1),
    )  # fmt: skip
    assert read(200, json.dumps(entries[:1]).encode(), None, NOON) == (("TABBY", 0.2),)


@pytest.mark.parametrize("score", [0, 1, 0.0, 1.0])
def test_the_ends_of_the_scale_are_scores(score: float) -> None:
    assert read(200, answer([{"label": "A", "score": score}]), None, NOON) == (("A", float(score)),)


@pytest.mark.parametrize(
    "entries",
    [
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
    ],
)
def test_an_answer_with_absurd_labels_is_the_models_fault(entries: Any) -> None:
    error = refused(200, answer(entries))
    assert not is_away(error)
    assert error.retry_after is None


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
        [{"label": ["CAT"], "score": 0.5}],
    ],
)
def test_an_answer_without_labels_is_no_answer_of_the_model(entries: Any) -> None:
    assert is_away(refused(200, answer(entries)))


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"result":[{"label":"CAT","sc', b"<html>", b"\xff\xfe", b"[" * 60_000]
)
def test_an_answer_that_is_no_json_is_not_the_models(body: bytes) -> None:
    """A page of somebody between us and it, or of its maintenance."""
    found = refused(200, body, "20")
    assert "JSON" in found.message
    assert is_away(found)
    assert found.retry_after == 20


def test_the_days_allowance_is_spent_until_midnight() -> None:
    found = refused(429, error(3036, "you have used up your daily free allocation"))
    assert is_away(found)
    assert found.retry_after == 12 * 3600 + 60
    assert "3036" in found.message


@pytest.mark.parametrize(
    ("status", "body", "hint", "wait"),
    [
        (429, error(3040), None, None),
        (429, error(3040), "7", 7),
        (429, error(3040), "Fri, 15 Jan 2027 12:00:30 GMT", 30),
        (429, error(3040), "Fri, 15 Jan 2027 11:00:00 GMT", 0),
        (429, error(3040), "99999999", 3600),
        (429, error(3040), "soon", None),
        (429, error(3040), "-5", None),
        (429, b"slow down", None, None),
        (429, error(2003, key="error"), None, None),
        (400, error(3040), None, None),
        (503, b"<html>", "20", 20),
    ],
)
def test_too_much_at_once_says_when_to_come_back(
    status: int, body: bytes, hint: str | None, wait: float | None
) -> None:
    found = refused(status, body, hint)
    assert found.retry_after == wait
    assert is_away(found)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 530])
def test_what_may_pass_is_worth_another_try(status: int) -> None:
    found = refused(status, error(3007))
    assert is_away(found)
    assert found.retry_after is None


@pytest.mark.parametrize(("status", "code"), [(400, 5006), (413, 3006), (422, 1)])
def test_a_refusal_of_the_image_counts_against_it(status: int, code: int) -> None:
    found = refused(status, error(code))
    assert not is_away(found)
    assert str(status) in found.message
    assert str(code) in found.message


@pytest.mark.parametrize(
    ("status", "setting"),
    [(401, "_TOKEN"), (403, "account"), (404, "_URL"), (405, ""), (204, ""), (301, ""), (307, "")],
)
def test_what_a_setting_puts_right_is_waited_for(status: int, setting: str) -> None:
    """Nothing is followed, and no image is to blame; the words say where to look."""
    found = refused(status, error(10000))
    assert is_away(found)
    assert setting in found.message


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
    assert is_away(refused(200, error(5000)))


def test_the_five_best_are_kept() -> None:
    entries = [{"label": name, "score": n / 10} for n, name in enumerate("ABCDEFG")]
    found = read(200, answer(entries), None, NOON)
    assert [label for label, _ in found] == ["G", "F", "E", "D", "C"]
