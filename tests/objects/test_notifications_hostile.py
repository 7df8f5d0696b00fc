"""Whatever is sent, nothing raises, nothing is lost, and dead letters can be stored."""

import copy
import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objects import notification_samples as sample
from safelight.objects.keys import split_key
from safelight.objects.notifications.normalise import DEEPEST, MOST, TooManyRecords, normalise
from safelight.objects.notifications.notice import Ignored, Normalised, Rejected

SAMPLES: list[Any] = [
    sample.r2(),
    sample.r2("DeleteObject"),
    sample.pulled(sample.r2()),
    sample.forwarded(sample.r2()),
    sample.s3_records(sample.s3()),
    sample.s3_test(),
    sample.minio(),
    sample.seaweedfs("update"),
    sample.sns(sample.s3_records(sample.s3())),
    sample.sns_confirmation(),
    sample.sqs_polled(sample.sns(sample.s3_records(sample.s3()))),
    sample.sqs_records(sample.eventbridge()),
    sample.eventbridge(),
]
NAMES = sorted(
    {name for one in SAMPLES for name in json.dumps(one).split('"') if name.isidentifier()}
)
ODD = st.sampled_from(
    ["", "\x00", "\ud800", "a/b", "acme/cat", "{}", "[]", "null", "%", "+", "e30=", "NaN", "0x10",
     "ObjectCreated:", "s3:", "2026-01-05T09:07:03Z", -1, 2**70, 0.5, float("nan"), float("inf"), True, None]
)  # fmt: skip
LEAVES = ODD | st.text(alphabet=st.characters(codec=None), max_size=8)
JUNK = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4)
        | inner.map(json.dumps)
    ),
    max_leaves=12,
)


def texts(raw: Any) -> Iterator[str]:
    if isinstance(raw, str):
        yield raw
    elif isinstance(raw, list | dict):
        yield from (text for inner in raw for text in texts(inner))
        yield from texts(list(raw.values()) if isinstance(raw, dict) else None)


def check(found: Normalised) -> None:
    for event in found.events:
        assert split_key(event.key)[0] == event.organization
        assert event.event_time >= 0
    dropped: list[Ignored | Rejected] = [*found.ignored, *found.rejected]
    for item in dropped:
        assert item.reason.isascii() or item.reason.isprintable()
        assert item.raw is not None
        json.dumps(item.raw, ensure_ascii=False, allow_nan=False).encode()
        assert not any("\x00" in text for text in texts(item.raw))


@settings(max_examples=150, deadline=None)
@given(JUNK)
def test_junk(body: Any) -> None:
    found = normalise(body)
    check(found)
    if not isinstance(body, list | dict | str):
        assert len(found.rejected) == 1


WRONG: list[Any] = [None, True, 7, float("nan"), "", "\x00\ud800", [], [[]], {}, {"a": {}}]


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_every_part_of_real_messages_replaced(number: int) -> None:
    for path in paths(SAMPLES[number]):
        for wrong in WRONG:
            broken = copy.deepcopy(SAMPLES[number])
            place = reduce(lambda inner, name: inner[name], path[:-1], broken)
            place[path[-1]] = wrong
            check(normalise(broken))


def paths(body: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(body, dict | list):
        for name, inner in body.items() if isinstance(body, dict) else enumerate(body):
            yield (*before, name)
            yield from paths(inner, (*before, name))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(SAMPLES))
def test_real_messages_with_a_part_replaced(data: st.DataObject, body: Any) -> None:
    broken = copy.deepcopy(body)
    place, name = _somewhere(data, broken)
    if data.draw(st.booleans()):
        place[name] = data.draw(JUNK)
    else:
        del place[name]
    check(normalise(broken))
    beside = normalise([broken, sample.r2(key="acme/beside.png")])
    assert beside.events[-1].key == "acme/beside.png"


def _somewhere(data: st.DataObject, body: Any) -> tuple[Any, Any]:
    place = body
    while True:
        name = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))  # fmt: skip
        inner = place[name]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            return place, name
        place = inner


def nested(body: Any, times: int) -> Any:
    for _ in range(times):
        body = [body]
    return body


def test_envelopes_in_envelopes_end_somewhere() -> None:
    assert len(normalise(nested(sample.r2(), DEEPEST)).events) == 1
    assert [item.code for item in normalise(nested(sample.r2(), DEEPEST + 1)).rejected] == [
        "TOO_DEEP"
    ]


def test_very_deep_nesting() -> None:
    found = normalise(nested(1, 100_000))
    check(found)
    assert [item.code for item in found.rejected] == ["TOO_DEEP"]


def test_very_deep_text() -> None:
    found = normalise(sample.sns("[" * 200_000 + "]" * 200_000))
    check(found)
    assert [item.code for item in found.rejected] == ["UNREADABLE"]


def test_text_in_text_in_text() -> None:
    body = json.dumps("x")
    for _ in range(14):
        body = json.dumps(body)
    check(found := normalise(body))
    assert len(found.rejected) == 1


def test_a_deep_part_beside_a_good_record() -> None:
    found = normalise(sample.r2() | {"account": nested(1, 50_000)})
    assert len(found.events) == 1


def test_a_deep_dead_letter_is_cut() -> None:
    found = normalise({"unknown": nested(1, 50_000)})
    check(found)
    assert "…" in json.dumps(found.rejected[0].raw, ensure_ascii=False)


def test_numbers_beyond_all_measure() -> None:
    found = normalise(sample.forwarded('{"action": 1' + "0" * 10_000 + "}", {"n": 10**200}))
    check(found)
    assert [item.code for item in found.rejected] == ["UNREADABLE", "UNKNOWN_SHAPE"]


def test_a_list_is_read_whole_or_refused_whole() -> None:
    found = normalise([sample.r2(key=f"acme/{n}") for n in range(MOST - 1)])
    assert [event.key for event in found.events] == [f"acme/{n}" for n in range(MOST - 1)]
    with pytest.raises(TooManyRecords):
        normalise([sample.r2(key=f"acme/{n}") for n in range(MOST)])
    with pytest.raises(TooManyRecords):
        normalise([0] * 50_000)


def test_a_dead_letter_sent_again_is_judged_the_same() -> None:
    for body in (
        None, 7, "text", "\x00", {"a": [None]}, {"\ud800": float("nan")}, sample.r2(key="cat.png"),
        sample.r2(time="\x00"), sample.r2(key="acme/c\x00t.jpg"), sample.r2(key="acme/\ud800.jpg"),
    ):  # fmt: skip
        (first,) = normalise(body).rejected
        (again,) = normalise(first.raw).rejected
        assert (again.code, again.raw) == (first.code, first.raw)


def test_a_long_action_is_not_repeated_in_full() -> None:
    (item,) = normalise(sample.r2("X\x00\ud800" * 100_000)).ignored
    assert len(item.reason) < 1000
    assert item.reason.isascii()
