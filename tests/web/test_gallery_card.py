"""What a card says, and the filters' judgement of one card, which must be the library's own."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safelight.infra.db import Database
from safelight.infra.injected import ImageId
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.library.entry import ENTRY_STATUSES, Entry, RunStatus
from safelight.library.lists import repo as lists
from safelight.objects.keys import words
from safelight.web.gallery.card import (
    STATUS_WORDS,
    Card,
    GalleryFilter,
    of_entry,
    of_image,
    readable_size,
)
from safelight.web.gallery.tile import tile_of

ENTRY = Entry(
    organization="default", name="Fähre_01.jpg", event_time=5, idempotency_key="key", image_id=None,
    mime_type=None, width=None, height=None, size_bytes=None, checksum=None, dominant_color=None,
    drawn=0, classification_status=RunStatus.DONE, classification_label="TIGER CAT",
    classification_score=0.634, classification_model="m", classified_at=6,
)  # fmt: skip
IMAGE = Image(
    id=ImageId("img_1"), organization="default", name="a.jpg", idempotency_key="k",
    status=ImageStatus.INGESTED, temp_path="/x", checksum="c", mime_type="image/jpeg",
    width=4000, height=3000, size_bytes=3_500_000, created_at=7, updated_at=7,
)  # fmt: skip

SUM = "ab" * 32


def entry(**values: Any) -> Entry:
    return replace(ENTRY, **values)


def test_what_the_states_are_called_on_a_card() -> None:
    cards = [of_entry(entry(classification_status=status)) for status in ENTRY_STATUSES]
    assert [
        (card.word, card.slug, card.state.icon, card.state.tone, card.moves) for card in cards
    ] == [
        ("Stored", "stored", "archive", "plain", True),
        ("Classifying", "classifying", "loop", "plain", True),
        ("Labelled", "labelled", "tag", "good", False),
        ("No label", "no-label", "alert", "problem", False),
    ]
    cards = [of_image(replace(IMAGE, status=status)) for status in ImageStatus]
    assert [
        (card.word, card.slug, card.state.icon, card.state.tone, card.moves) for card in cards
    ] == [
        ("Received", "received", "inbox", "plain", True),
        ("Received", "received", "inbox", "plain", True),
        ("Stored", "stored", "archive", "plain", True),
        ("Not stored", "not-stored", "alert", "problem", False),
    ]
    assert list(STATUS_WORDS.values()) == [
        "Waiting for a label", "Being classified", "Labelled", "No label",
    ]  # fmt: skip


def test_an_image_on_its_way_has_nothing_to_show_yet() -> None:
    card = of_image(IMAGE)
    assert (card.state, card.version, card.at) == (ImageStatus.INGESTED, None, 7)
    failed = of_image(replace(IMAGE, status=ImageStatus.FAILED), "The file is gone.")
    assert (failed.trouble, failed.moves) == ("The file is gone.", False)


def test_what_went_wrong_is_told_in_words() -> None:
    assert of_entry(ENTRY).trouble is None
    error = {"code": "MODEL_ERROR", "message": "the model was away"}
    tried = entry(classification_status=RunStatus.PENDING, error=error)
    assert of_entry(tried).trouble == "the model was away"


def test_a_low_score_is_a_guess() -> None:
    words = [
        tile_of("default", of_entry(entry(classification_score=score))).label
        for score in (None, 0.5, 0.49)
    ]
    assert words == ["Tiger cat", "Tiger cat", "Maybe tiger cat"]


@pytest.mark.parametrize(
    ("size", "drawn", "widths"),
    [
        ((4000, 3000), 2, (320, 1280)),
        ((3000, 4000), 2, (240, 960)),
        ((640, 480), 2, (320, 640)),
        ((200, 100), 2, (200, None)),
        ((4000, 3000), 0, (320, None)),
        ((None, None), 2, (None, None)),
    ],
)
def test_two_sizes_of_a_picture(
    size: tuple[int | None, int | None], drawn: int, widths: tuple[int | None, int | None]
) -> None:
    """The larger one is offered where it is larger, and drawn."""
    shown = entry(width=size[0], height=size[1], drawn=drawn, size_bytes=9_000_000, checksum=SUM)
    tile = tile_of("default", of_entry(shown))
    assert (tile.small, tile.large) == widths
    there = f"/api/organizations/default/uploads/F%C3%A4hre_01.jpg/thumbnail?v={SUM} {widths[0]}w"
    assert (tile.pictures or "").startswith(there) is (widths[1] is not None)


@pytest.mark.parametrize(
    ("score", "shown"),
    [(None, None), (0.0, "0 %"), (0.634, "63 %"), (0.999, "> 99 %"), (1.0, "100 %")],
)
def test_percent(score: float | None, shown: str | None) -> None:
    assert of_entry(entry(classification_score=score)).percent == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (27_255, "27 KB"), (10**7, "9.5 MB"),
     (3 * 10**9, "2.8 GB"), (10**13, "9313.2 GB")],
)  # fmt: skip
def test_sizes_in_words(size: int, shown: str) -> None:
    assert readable_size(size) == shown


def test_a_card_knows_little_of_a_strangers_object() -> None:
    assert of_entry(ENTRY).picture is None
    assert of_entry(entry(name="a#b?c%d e.jpg")).path == "a%23b%3Fc%25d%20e.jpg"


def test_the_address_of_a_search() -> None:
    assert GalleryFilter().query() == ""
    assert (
        GalleryFilter("a&b", "TIGER CAT").query(cursor="x") == "?q=a%26b&label=TIGER+CAT&cursor=x"
    )
    assert not GalleryFilter().any
    assert GalleryFilter(status=RunStatus.DONE).any
    assert GalleryFilter("…").is_wordless
    assert not GalleryFilter().is_wordless


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (GalleryFilter(), True),
        (GalleryFilter("fähr"), True),
        (GalleryFilter("FAHRE tig"), True),
        (GalleryFilter("01 cat tiger"), True),
        (GalleryFilter("ähre"), False),
        (GalleryFilter("fahre dog"), False),
        (GalleryFilter(label="TIGER CAT"), True),
        (GalleryFilter(label="TIGER"), False),
        (GalleryFilter(status=RunStatus.DONE), True),
        (GalleryFilter(status=RunStatus.PENDING), False),
    ],
)
async def test_one_card_is_judged_as_the_library_judges(
    database: Database, wanted: GalleryFilter, found: bool
) -> None:
    await insert(database, ENTRY)
    rows = await lists.page(database, "default", wanted.as_filters(), None, 10)
    assert [row.name for row in rows] == ([ENTRY.name] if found else [])
    assert wanted.matches(of_entry(ENTRY)) is found


@given(st.text(max_size=12), st.text(max_size=12))
def test_a_card_is_found_by_its_own_name(name: str, label: str) -> None:
    card = Card(name, 0, RunStatus.DONE, "v", None, None, None, label)
    assert GalleryFilter(q=name).matches(card)
    assert GalleryFilter(q=f"{name} {label}").matches(card)


async def insert(db: Database, row: Entry) -> None:
    await db.execute(
        """
        INSERT INTO uploads (organization, name, event_time, source, idempotency_key,
                             classification_status, classification_label, search)
        VALUES ($1, $2, $3, 'test', $4, $5, $6, array_to_tsvector($7))
        """,
        row.organization,
        row.name,
        row.event_time,
        row.idempotency_key,
        row.classification_status,
        row.classification_label,
        words(row.name, row.classification_label),
    )


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"drawn": 7, "checksum": SUM, "size_bytes": 9_000_000}, f"thumbnail?v={SUM}"),
        ({"drawn": 2, "size_bytes": 9_000_000}, "thumbnail?v=key"),
        ({"drawn": 5, "checksum": SUM, "size_bytes": 9_000_000}, None),
        ({"drawn": 8, "size_bytes": 262_144}, "content?v=key"),
        ({"size_bytes": 262_145}, None),
        ({"size_bytes": None}, None),
    ],
)
def test_what_is_shown_of_an_image(values: dict[str, Any], shown: str | None) -> None:
    """A small original does where there is no thumbnail; a large one is nobody's to wait for."""
    card = of_entry(entry(**values))
    assert card.picture == shown
    without = of_entry(entry(**values), originals=True)
    assert without.picture == (shown or "content?v=key")
    assert of_image(IMAGE).picture is None
