import contextlib
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from safelight.objects.keys import (
    RESERVED_ORGANIZATION_IDS,
    InvalidKey,
    InvalidName,
    InvalidOrganizationId,
    ReservedKey,
    around_number,
    check_name,
    check_organization_id,
    check_stored_name,
    clean_name,
    from_metadata,
    is_clean,
    object_key,
    split_key,
    to_metadata,
)

unhurried = settings(deadline=None)

LONG = "x" * 300
HOSTILE = "ab. ./\\é\u0301\u0316\u0344\u1100\u1161\u11a8\u200d\u202e\u00a0\u2000\u2028\t\n\x00\x7f\ud800\ue000\U0001f469\U0001f3fd\u037e\u212b(2)"
ANY_TEXT = st.one_of(
    st.text(),
    st.text(alphabet=st.characters(codec=None), max_size=400),
    st.text(alphabet=HOSTILE, max_size=400),
    st.builds(
        lambda stem, times, tail: stem * times + tail,
        st.text(alphabet=HOSTILE, min_size=1, max_size=6),
        st.integers(20, 120),
        st.text(alphabet=HOSTILE + ".jpg", max_size=24),
    ),
)
CLEAN = ANY_TEXT.map(lambda raw: clean_name(raw, "jpg"))


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("photo.jpg", "photo.jpg"),
        ("Ferien › Meer › IMG_1.jpg", "Ferien › Meer › IMG_1.jpg"),
        ("/home/me/photo.jpg", "photo.jpg"),
        ("C:\\fakepath\\photo.jpg", "photo.jpg"),
        ("a/b\\c.jpg", "c.jpg"),
        ("a\\b/c.jpg", "c.jpg"),
        ("../../etc/passwd", "passwd"),
        ("folder/", "image.webp"),
        ("", "image.webp"),
        (".", "image.webp"),
        ("..", "image.webp"),
        (" . .. . ", "image.webp"),
        ("\u00a0\u3000\u2003", "image.webp"),
        ("\x00\x01\x7f\u200b", "image.webp"),
        (".hidden.png", "hidden.png"),
        (".png", "png"),
        ("photo.jpg. .", "photo.jpg"),
        (" .  photo.jpg", "photo.jpg"),
        ("photo .jpg", "photo .jpg"),
        ("two  spaces.jpg", "two spaces.jpg"),
        ("em\u2003quad\u2000\u3000wide.jpg", "em quad wide.jpg"),
        ("line\u2028end.jpg", "line end.jpg"),
        ("tab\tnew\nline.jpg", "tabnewline.jpg"),
        ("nul\x00byte.jpg", "nulbyte.jpg"),
        ("e\u0301.jpg", "é.jpg"),
        ("e\u200d\u0301.jpg", "é.jpg"),
        ("\u212b\u2126.jpg", "ÅΩ.jpg"),
        ("gpj.\u202eevil", "gpj.evil"),
        ("\u200fשלום\u200e.jpg", "שלום.jpg"),
        ("👩\u200d🚀.jpg", "👩🚀.jpg"),
        ("❤\ufe0f.jpg", "❤\ufe0f.jpg"),
        ("\ufeffbom.jpg", "bom.jpg"),
        ("lone\ud83dhalf.jpg", "lonehalf.jpg"),
        (b"caf\xe9.jpg".decode("utf-8", "surrogateescape"), "caf.jpg"),
        ("café.jpg".encode().decode("latin-1"), "cafÃ©.jpg"),
        ("private\ue000unassigned\uffff.jpg", "privateunassigned.jpg"),
        ("con", "con"),
        ("CON.jpg", "CON.jpg"),
        ("a:b*c?.jpg", "a:b*c?.jpg"),
        ("no extension", "no extension"),
        ("100%.jpg", "100%.jpg"),
    ],
)
def test_cleaning(raw: str, cleaned: str) -> None:
    assert clean_name(raw, "webp") == cleaned


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("x" * 255, "x" * 255),
        ("x" * 256, "x" * 255),
        ("x" * 251 + ".jpg", "x" * 251 + ".jpg"),
        (LONG + ".jpg", "x" * 251 + ".jpg"),
        (LONG + "." + "e" * 16, "x" * 238 + "." + "e" * 16),
        (LONG + "." + "e" * 17, "x" * 255),
        (LONG + "." + "é" * 8, "x" * 238 + "." + "é" * 8),
        (LONG + "." + "é" * 9, "x" * 255),
        (LONG + ". no ext", "x" * 255),
        ("é" * 200 + ".jpg", "é" * 125 + ".jpg"),
        ("😀" * 100 + ".jpg", "😀" * 62 + ".jpg"),
        ("x" * 254 + " " + "y" * 50, "x" * 254),
        ("x" * 253 + ". " + "y" * 50, "x" * 253),
        ("x" * 250 + "q\u0323\u0307" + "y" * 50 + ".jpg", "x" * 250 + ".jpg"),
        ("x" * 254 + "ё" + "z" * 9, "x" * 254),
        ("q" + "\u0323" * 300, "q" + "\u0323" * 127),
        ("\u0323" * 300 + ".jpg", "\u0323" * 125 + ".jpg"),
        ("\u0958" * 42 + ".jpg", "\u0915\u093c" * 41 + ".jpg"),
    ],
)
def test_cutting(raw: str, cleaned: str) -> None:
    assert clean_name(raw, "jpg") == cleaned
    assert len(cleaned.encode()) <= 255


@unhurried
@given(ANY_TEXT)
@example("e\u200d\u0301")
@example("\u1100\u200b\u1161")
@example("x" * 254 + " .y" * 20)
@example("x" * 250 + "." + "e" * 17 + " .")
@example("a" + "\u0344" * 200 + ".jpg")
def test_cleaning_twice_is_cleaning_once_and_always_gives_a_valid_name(raw: str) -> None:
    cleaned = clean_name(raw, "jpg")
    assert clean_name(cleaned, "png") == cleaned
    assert is_clean(cleaned)
    check_name(cleaned)
    check_stored_name(cleaned)


@unhurried
@given(ANY_TEXT)
def test_a_name_is_clean_exactly_when_cleaning_leaves_it_alone(raw: str) -> None:
    assert is_clean(raw) == (clean_name(raw, "jpg") == raw)
    if not is_clean(raw):
        with pytest.raises(InvalidName):
            check_name(raw)


@unhurried
@given(CLEAN)
def test_a_clean_name_keeps_the_rules_of_the_library(name: str) -> None:
    assert unicodedata.normalize("NFC", name) == name
    assert 1 <= len(name.encode()) <= 255
    assert not set(name) & {"/", "\\"}
    assert not any(unicodedata.category(char).startswith("C") for char in name)
    assert not name.startswith((".", " "))
    assert not name.endswith((".", " "))


@unhurried
@given(ANY_TEXT)
def test_cleaning_forgets_nothing_but_what_it_must(raw: str) -> None:
    """A name of plain letters below the limit passes whatever stands around it."""
    assert clean_name(f"{raw}/ ..plain.jpg\u200b. ", "png") == "plain.jpg"


def test_hostile_names_are_cleaned_quickly() -> None:
    began = time.perf_counter()
    for raw in ("a" + "\u0301\u0316" * 50_000 + ".jpg", " ." * 100_000, "\u200d" * 200_000):
        assert len(clean_name(raw, "jpg").encode()) <= 255
        assert not is_clean(raw)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty"),
        ("a/b", "cannot contain /"),
        ("a\\b", "cannot contain /"),
        ("a\x00b", r"control characters \(U\+0000\)"),
        ("a\ud800b", r"control characters \(U\+D800\)"),
        (".", "begin with a dot"),
        ("..", "begin with a dot"),
        (".a", "begin with a dot"),
        ("x" * 256, "has 256"),
        ("e\u0301", "NFC"),
        ("a\u200db", r"invisible or unassigned characters \(U\+200D\)"),
        ("a.", "end with a space or a dot"),
        (" a", "begin or end with a space"),
        ("a  b", "single plain spaces"),
        ("a\u00a0b", "single plain spaces"),
    ],
)
def test_faults_are_said_in_words(name: str, words: str) -> None:
    with pytest.raises(InvalidName, match=words):
        check_name(name)


@pytest.mark.parametrize(
    "name", ["a  b.jpg", "👩\u200d🚀.jpg", "a.", "a\u00a0b", " a", "new\uffff"]
)
def test_the_store_may_hold_names_that_are_not_clean(name: str) -> None:
    check_stored_name(name)
    assert not is_clean(name)
    assert split_key(f"org/{name}") == ("org", name)


def numbered(name: str, n: int) -> str:
    before, after = around_number(name, len(str(n)))
    return f"{before}{n}{after}"


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [
        ("photo.jpg", 2, "photo (2).jpg"),
        ("photo.jpg", 10, "photo (10).jpg"),
        ("photo", 2, "photo (2)"),
        ("photo .jpg", 2, "photo (2).jpg"),
        ("photo (2).jpg", 3, "photo (2) (3).jpg"),
        ("archive.tar.gz", 2, "archive.tar (2).gz"),
        ("Mr. Smith", 2, "Mr. Smith (2)"),
        ("a." + "e" * 16, 2, "a (2)." + "e" * 16),
        ("a." + "e" * 17, 2, "a." + "e" * 17 + " (2)"),
        ("x" * 251 + ".jpg", 2, "x" * 247 + " (2).jpg"),
        ("x" * 255, 2, "x" * 251 + " (2)"),
        ("é" * 125 + ".jpg", 2, "é" * 123 + " (2).jpg"),
        ("x" * 246 + " yyyy.jpg", 2, "x" * 246 + " (2).jpg"),
    ],
)
def test_numbering(name: str, n: int, expected: str) -> None:
    assert numbered(name, n) == expected
    assert len(expected.encode()) <= 255


@unhurried
@given(CLEAN, st.integers(1, 10**9))
def test_a_numbered_name_is_clean_and_differs_by_number(name: str, n: int) -> None:
    assert is_clean(numbered(name, n))
    assert numbered(name, n) != numbered(name, n + 1)
    assert numbered(name, n) != name


@pytest.mark.parametrize("organization_id", ["a", "0", "-", "acme-2", "x" * 64, "artifact"])
def test_organization_ids(organization_id: str) -> None:
    check_organization_id(organization_id)


@pytest.mark.parametrize(
    "organization_id",
    [
        "",
        "x" * 65,
        "Acme",
        "a_b",
        "a.b",
        "a b",
        "é",
        "a\n",
        "\n",
        "١",
        "a/b",
        *sorted(RESERVED_ORGANIZATION_IDS),
    ],
)
def test_organization_ids_that_are_refused(organization_id: str) -> None:
    with pytest.raises(InvalidOrganizationId):
        check_organization_id(organization_id)
    with pytest.raises(InvalidOrganizationId):
        object_key(organization_id, "a.jpg")


@unhurried
@given(st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True), CLEAN)
def test_keys_come_apart_as_they_were_put_together(organization_id: str, name: str) -> None:
    if organization_id not in RESERVED_ORGANIZATION_IDS:
        assert split_key(object_key(organization_id, name)) == (organization_id, name)


@pytest.mark.parametrize(
    "key",
    ["", "/", "org", "org/", "/name", "org/a/b", "org//a", "org/a\\b", "Org/a", "org/.", "org/..", "org/.a",
     "org/a\n", "org/e\u0301", "org/" + "x" * 256, "org/\udcff", "org name/a", "org\n/a"],
)  # fmt: skip
def test_malformed_keys(key: str) -> None:
    with pytest.raises(InvalidKey) as caught:
        split_key(key)
    assert not isinstance(caught.value, ReservedKey)


@pytest.mark.parametrize("prefix", sorted(RESERVED_ORGANIZATION_IDS))
def test_reserved_prefixes_are_told_from_malformed_keys(prefix: str) -> None:
    with pytest.raises(ReservedKey):
        split_key(f"{prefix}/deeper/still.jpg")


@unhurried
@given(ANY_TEXT)
def test_splitting_raises_nothing_else(key: str) -> None:
    try:
        organization_id, name = split_key(key)
    except InvalidKey:
        return
    assert object_key(organization_id, name) == key


@pytest.mark.parametrize("name", ["../a", "a/b", "", "a\x00"])
def test_a_key_is_not_made_of_a_broken_name(name: str) -> None:
    with pytest.raises(InvalidName):
        object_key("org", name)


@unhurried
@given(CLEAN)
def test_metadata_is_ascii_and_comes_back(name: str) -> None:
    value = to_metadata(name)
    assert value.isascii()
    assert value.isprintable()
    assert " " not in value
    assert from_metadata(value) == name


def test_metadata() -> None:
    assert to_metadata("Ferien › 100% é.jpg") == "Ferien%20%E2%80%BA%20100%25%20%C3%A9.jpg"
    assert from_metadata("plain%20name.jpg") == "plain name.jpg"
    with pytest.raises(InvalidName, match="percent-encoded"):
        from_metadata("caf%E9.jpg")


@unhurried
@given(st.text())
def test_reading_metadata_raises_nothing_else(value: str) -> None:
    with contextlib.suppress(InvalidName):
        from_metadata(value)
