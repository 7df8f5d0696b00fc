import pytest

from safelight.classification.labels import CLASSES, label_of, labels


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("tabby, tabby cat", "TABBY"),
        ("PERSIAN CAT", "PERSIAN CAT"),
        ("bicycle-built-for-two, tandem bicycle, tandem", "BICYCLE-BUILT-FOR-TWO"),
        ("  jack-o'-lantern ", "JACK-O'-LANTERN"),
        (", nothing before the comma", ""),
        ("", ""),
    ],
)
def test_the_first_synonym_in_upper_case(text: str, label: str) -> None:
    assert label_of(text) == label


def test_every_class_has_a_label_at_its_known_place() -> None:
    names = labels()
    assert len(names) == CLASSES
    assert all(name and name == name.upper() and name.isprintable() for name in names)
    known = {0: "TENCH", 281: "TABBY", 282: "TIGER CAT", 285: "EGYPTIAN CAT", 967: "ESPRESSO"}
    assert {index: names[index] for index in known} == known
    assert names[985] == "DAISY"
    assert names[999] == "TOILET TISSUE"


def test_labels_a_vendor_publishes_are_among_them() -> None:
    published = {"PERSIAN CAT", "PEKINESE", "FEATHER BOA", "FRENCH BULLDOG", "GERMAN SHEPHERD"}
    assert published <= set(labels())


def test_three_labels_name_two_classes_each() -> None:
    names = labels()
    assert {name for name in names if names.count(name) > 1} == {"CRANE", "CARDIGAN", "MAILLOT"}
