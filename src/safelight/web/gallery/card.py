"""One image as the gallery shows it, and what the visitor asked to see. Pure."""

from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote, urlencode

from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.library.entry import ENTRY_STATUSES, Entry, EntryStatus, LibraryFilter, RunStatus
from safelight.objects.keys import prefix_query, words
from safelight.web.story.words import percent

SURE = 0.5  # below it a label is a guess
_KIB = 1024
_SMALL = 256 * _KIB  # an original of that size does for a thumbnail until there is one


STATUS_WORDS = {status: status.word for status in ENTRY_STATUSES}
# A card has less room than the list to choose from.
_SHORT = {RunStatus.RUNNING: "Classifying"}

CardState: TypeAlias = ImageStatus | RunStatus


@dataclass(frozen=True, slots=True)
class Card:
    name: str
    at: int
    state: CardState
    version: str | None  # of the content; None: there is nothing to show yet
    width: int | None
    height: int | None
    size_bytes: int | None
    label: str | None = None
    score: float | None = None
    trouble: str | None = None
    checksum: str | None = None
    thumbnail: bool = False
    originals: bool = False  # shown where there is no thumbnail, whatever their size
    tint: str | None = None  # of its place while it is on its way
    image_id: str | None = None

    @property
    def picture(self) -> str | None:
        """What is shown of it, below its own address; each version of it has an address that stays
        the same. None: a placeholder."""
        if self.version is None:
            return None
        if self.thumbnail:
            return f"thumbnail?v={quote(self.checksum or self.version, safe='')}"
        small = self.size_bytes is not None and self.size_bytes <= _SMALL
        return f"content?v={quote(self.version, safe='')}" if small or self.originals else None

    @property
    def word(self) -> str:
        short = _SHORT.get(self.state) if isinstance(self.state, RunStatus) else None
        return short or self.state.word

    @property
    def slug(self) -> str:
        return self.word.lower().replace(" ", "-")

    @property
    def moves(self) -> bool:
        """Whether it will change by itself. What is stored waits for its label."""
        return self.state.under_way or self.state is ImageStatus.STORED

    @property
    def path(self) -> str:
        return quote(self.name, safe="")

    @property
    def percent(self) -> str | None:
        return None if self.score is None else percent(self.score)

    @property
    def unsure(self) -> bool:
        return self.score is not None and self.score < SURE


def of_entry(entry: Entry, *, originals: bool = False) -> Card:
    return Card(
        name=entry.name,
        at=entry.event_time,
        state=_shown(entry.classification_status),
        version=entry.idempotency_key,
        width=entry.width,
        height=entry.height,
        size_bytes=entry.size_bytes,
        label=entry.classification_label,
        score=entry.classification_score,
        trouble=entry.error["message"] if entry.error else None,
        checksum=entry.checksum,
        thumbnail=entry.has_thumbnail,
        originals=originals,
        tint=entry.dominant_color,
        image_id=entry.image_id,
    )


def _shown(status: EntryStatus) -> CardState:
    """Until its run has begun to be work, an entry is an image that is stored."""
    return ImageStatus.STORED if status is RunStatus.PENDING else status


def of_image(image: Image, trouble: str | None = None, *, originals: bool = False) -> Card:
    return Card(
        name=image.name,
        at=image.created_at,
        state=image.status,
        version=image.idempotency_key if image.status is ImageStatus.STORED else None,
        width=image.width,
        height=image.height,
        size_bytes=image.size_bytes,
        trouble=trouble,
        originals=originals,
        image_id=image.id,
    )


@dataclass(frozen=True, slots=True)
class GalleryFilter:
    """The filters above the gallery."""

    q: str | None = None
    label: str | None = None
    status: EntryStatus | None = None

    @property
    def any(self) -> bool:
        return any((self.q, self.label, self.status))

    @property
    def is_wordless(self) -> bool:
        """A search without a letter or digit finds nothing, since it says nothing."""
        return self.q is not None and prefix_query(self.q) is None

    def as_filters(self) -> LibraryFilter:
        return LibraryFilter(self.label, prefix_query(self.q) if self.q else None, self.status)

    def query(self, **more: str | None) -> str:
        """As an address's query, with its question mark."""
        pairs = {"q": self.q, "label": self.label, "status": self.status, **more}
        given = {name: value for name, value in pairs.items() if value}
        return f"?{urlencode(given)}" if given else ""

    def matches(self, card: Card) -> bool:
        """The same judgement as the library's search, for one card at hand."""
        if self.label is not None and card.label != self.label:
            return False
        if self.status is not None and card.state is not _shown(self.status):
            return False
        have = words(card.name, card.label)
        asked = words(self.q)
        return all(any(word.startswith(start) for word in have) for start in asked)


def readable_size(size: int) -> str:
    if size < _KIB:
        return f"{size} B"
    amount = size / _KIB
    for unit in ("KB", "MB"):
        if amount < _KIB:
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"  # noqa: PLR2004
        amount /= _KIB
    return f"{amount:.1f} GB"
