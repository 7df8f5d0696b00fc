"""The judge of storms can tell: each kind of loss, made up, is found; and nothing else is."""

from dataclasses import replace

import pytest

from storm.checks import Found, Image, admissible, judge
from storm.load import Operation, Reader

FIRST = Operation(
    "upload", "a.png", 0, 1.0, checksum="one", ended=2.0, answer="acknowledged", image="img_1"
)
SECOND = replace(FIRST, began=3.0, ended=4.0, checksum="two", image="img_2")
DELETED = Operation("delete", "a.png", 0, 5.0, ended=6.0, answer="acknowledged")


def found() -> Found:
    """After two uploads of one name."""
    return Found(
        images={
            "one": Image("img_1", "a.png", "one", "STORED", 1),
            "two": Image("img_2", "a.png", "two", "STORED", 2),
        },
        content={"a.png": "two"},
        listed={"a.png"},
        lines=[
            (1, "upload_ingested", "image:img_1", ""),
            (2, "upload_ingested", "image:img_2", ""),
            (3, "image_superseded", "image:img_1", ""),
            (4, "upload_stored", "image:img_2", ""),
            (5, "classification_updated", "upload:a.png", "marker"),
        ],
        markers={"marker"},
    )


READER = Reader([(1, 2.0), (2, 4.0), (4, 5.0), (5, 5.0)])


def test_all_is_well() -> None:
    assert judge([FIRST, SECOND], [READER], found()) == {}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("lost", {"images": {"two": found().images["two"]}}),
        ("lost", {"images": {**found().images, "one": replace(found().images["one"], status="INGESTED")}}),
        ("lost", {"lines": [line for line in found().lines if line[0] != 4]}),
        ("wrong version", {"content": {"a.png": "one"}}),
        ("wrong version", {"content": {}, "listed": set()}),
        ("wrong version", {"listed": set()}),
        ("doubled", {"lines": [*found().lines, (6, "upload_stored", "image:img_2", "")]}),
        ("doubled", {"lines": [*found().lines, (6, "classification_updated", "upload:a.png", "marker")]}),
        ("doubled", {"lines": [
            *found().lines,
            (6, "classification_workflow_started", "upload:a.png", "late"),
            (7, "classification_updated", "upload:a.png", "marker"),  # its place is taken
        ]}),
        ("doubled", {"markers": {"marker", "another"}}),
        ("stuck", {"unsettled": ["a job"]}),
        ("dead letters", {"dead": ["a job"]}),
        ("store", {"blobs": ["a file"]}),
    ],
)  # fmt: skip
def test_each_loss_is_seen(kind: str, change: dict[str, object]) -> None:
    assert kind in judge([FIRST, SECOND], [READER], replace(found(), **change))  # type: ignore[arg-type]


def test_an_image_that_was_replaced_and_is_back_has_its_label_told_again() -> None:
    there = found()
    there.lines += [
        (6, "classification_workflow_started", "upload:a.png", "late"),
        (7, "classification_workflow_started", "upload:a.png", "marker"),
        (8, "classification_updated", "upload:a.png", "marker"),
    ]
    reader = Reader([*READER.seen, (6, 6.0), (7, 6.0), (8, 6.0)])
    assert judge([FIRST, SECOND], [reader], there) == {}


@pytest.mark.parametrize("seen", [[1, 2, 4], [1, 2, 2, 4, 5], [1, 4, 2, 5], [1, 2, 4, 5, 9]])
def test_a_feed_with_a_gap_a_repetition_or_another_order_is_seen(seen: list[int]) -> None:
    reader = Reader([(seq, 9.0) for seq in seen])
    assert list(judge([FIRST, SECOND], [reader], found())) == ["feed"]


def test_what_was_kept_though_nothing_was_kept_is_seen() -> None:
    refused = replace(SECOND, answer="refused")
    assert "kept though refused" in judge([FIRST, refused], [READER], found())


def test_one_name_given_to_two_who_asked_for_a_free_one_is_seen() -> None:
    there = found()
    there.images = {key: replace(image, name="free.png") for key, image in there.images.items()}
    there.content, there.listed = {"free.png": "two"}, {"free.png"}
    assert "wrong version" in judge([FIRST, SECOND], [READER], there)


def test_the_last_acknowledged_wins_and_of_those_that_overlap_either() -> None:
    overlapping = replace(SECOND, began=1.5)
    assert admissible([FIRST, SECOND]) == {"two"}
    assert admissible([FIRST, overlapping]) == {"one", "two"}
    assert admissible([FIRST, SECOND, DELETED]) == {None}
    assert admissible([FIRST, replace(DELETED, answer="unknown", ended=float("inf"))]) == {
        "one",
        None,
    }


def test_an_unanswered_upload_is_as_old_as_its_line_in_the_feed() -> None:
    """Recorded before the second was sent, it may not be what the name holds."""
    unanswered = replace(FIRST, answer="unknown", ended=float("inf"))
    there = replace(found(), content={"a.png": "one"})
    assert "wrong version" in judge([unanswered, SECOND], [READER], there)
    late = Reader([(seq, at + 10) for seq, at in READER.seen])
    assert judge([unanswered, SECOND], [late], there) == {}
