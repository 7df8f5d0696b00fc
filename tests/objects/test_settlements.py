"""What follows from what the bucket holds, for every case there is."""

import pytest

from safelight.objects.events import Action
from safelight.objects.reconcile import (
    Agree,
    Erase,
    LeaveAlone,
    Restore,
    Settlement,
    Standing,
    Tell,
    settle,
)
from safelight.objects.store import ObjectInfo, Ticket, Unsettled

KEY = "acme/cat.jpg"
FOREIGN = ""  # no image of ours
IMAGES = {
    "winner": Standing(under_way=False, has_file=True),
    "lost": Standing(under_way=False, has_file=False),
    "beaten": Standing(under_way=False, has_file=True),
    "coming": Standing(under_way=True, has_file=False),
    "failed": Standing(under_way=False, has_file=False, failed=True),
}
PUT = Ticket(1, Action.CREATED, 5)
DELETE_SINCE, DELETE_BEFORE = Ticket(2, Action.DELETED, 7), Ticket(2, Action.DELETED, 5)


def info(image: str | None, etag: str = "") -> ObjectInfo | None:
    if image is None:
        return None
    metadata = {"imageId": image} if image else {}
    return ObjectInfo(KEY, 1, "image/jpeg", metadata, etag or f"etag of {image}", 7)


@pytest.mark.parametrize(
    ("indexed", "held", "ticket", "expected"),
    [
        (None, None, PUT, Agree()),
        ("winner", "winner", PUT, Agree()),
        (FOREIGN, FOREIGN, PUT, Agree()),
        # Somebody else's
        (None, FOREIGN, PUT, Tell()),
        ("winner", FOREIGN, PUT, Tell()),
        ("winner", "unheard of", PUT, Tell()),
        (FOREIGN, None, PUT, Tell()),
        (FOREIGN, "beaten", PUT, Tell()),
        # On its way
        (None, "coming", PUT, LeaveAlone()),
        ("winner", "coming", PUT, LeaveAlone()),
        # Came late
        (None, "beaten", PUT, Erase()),
        ("winner", "beaten", PUT, Restore("winner")),
        ("lost", "beaten", PUT, Tell()),
        # May be all there is of it
        (None, "failed", PUT, Agree()),
        ("winner", "failed", PUT, Restore("winner")),
        # Deleted, and nobody could say so; deleted late; taken
        ("winner", None, DELETE_SINCE, Tell()),
        ("winner", None, DELETE_BEFORE, Restore("winner")),
        ("lost", None, DELETE_BEFORE, Tell()),
        ("winner", None, PUT, Restore("winner")),
    ],
)
def test_settling(
    indexed: str | None, held: str | None, ticket: Ticket, expected: Settlement
) -> None:
    seen = Unsettled(KEY, (ticket,), 7, info(indexed))
    assert settle(seen, info(held), IMAGES, telling=False) == expected
    if (indexed, held, ticket) == ("winner", None, PUT):
        expected = Tell()  # a telling bucket has told who took it
    assert settle(seen, info(held), IMAGES, telling=True) == expected


def test_the_same_image_in_other_clothes_is_told() -> None:
    """As parts of another size give it another etag."""
    seen = Unsettled(KEY, (PUT,), 7, info("winner"))
    assert settle(seen, info("winner", "another"), IMAGES, telling=False) == Tell()
