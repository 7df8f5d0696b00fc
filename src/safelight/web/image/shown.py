"""One image as its page shows it: how it stands, its picture, its labels, its renditions. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from safelight.infra.history import Activity
from safelight.ingest.lifecycle import Image, ImageStatus, OffloadWait
from safelight.library.entry import Entry, RunStatus
from safelight.submissions.lifecycle import SubmissionState
from safelight.web.gallery.card import SURE, GalleryFilter, readable_size
from safelight.web.sentences import Sentence, joined, sentence_of
from safelight.web.story.words import percent

_LARGE, _SMALL = 1280, 320
_MEGA: Final = 1_000_000
# Of a submission, whose own page tells more of them.
_STEPS: Final = frozenset({SubmissionState.TIER1_SCANNING, SubmissionState.TIER2_SCANNING})
# What every browser shows by itself.
_DISPLAYED: Final = frozenset(
    {"image/jpeg", "image/png", "image/webp", "image/gif", "image/avif", "image/bmp"}
)


def address(
    organization: str, image_id: str | None, name: str, wanted: GalleryFilter | None = None
) -> str:
    """Of an image's page. One that somebody else put into the bucket has a name only."""
    base = f"/app/{organization}/images"
    query = (wanted or GalleryFilter()).query
    if image_id is not None:
        return f"{base}/{quote(image_id, safe='')}{query()}"
    return base + query(name=name)


@dataclass(frozen=True, slots=True)
class FoundImage:
    """`entry` is that of this very upload; `holder` is whoever has its name now instead. `coming`:
    it is to become an entry."""

    name: str
    marker: str | None
    image: Image | None
    entry: Entry | None
    holder: Entry | None = None
    coming: bool = False
    failure: str | None = None
    wait: OffloadWait | None = None

    @property
    def image_id(self) -> str | None:
        return self.image.id if self.image else None

    @property
    def place(self) -> tuple[int, str]:
        """In the library's order."""
        at = self.entry.event_time if self.entry else self.image.created_at if self.image else 0
        return at, self.name


@dataclass(frozen=True, slots=True)
class ImageStanding:
    """Like a state, with a word more. `next_at`: when it is tried again."""

    word: str
    icon: str
    tone: str = "plain"
    words: str = ""
    moves: bool = False
    next_at: int | None = None


def standing(found: FoundImage) -> ImageStanding:
    if found.entry is not None:
        return _of_entry(found.entry)
    if found.image is not None and found.image.status is ImageStatus.FAILED:
        state, words = ImageStatus.FAILED, found.failure or "The history below says why."
        return ImageStanding(state.word, state.icon, state.tone, words)
    if found.holder is not None:
        words = "A newer upload has its name. What you see here is what is left of this one."
        return ImageStanding("Replaced", "archive", words=words)
    if found.image is not None and found.image.status.under_way:
        return _under_way(found.wait)
    if found.coming:
        return ImageStanding("Stored", "archive", words="It comes into the library.", moves=True)
    words = "Its original is gone for good. Its history stays for a while."
    return ImageStanding("Deleted", "bin", words=words)


def _under_way(wait: OffloadWait | None) -> ImageStanding:
    if wait is None:
        return ImageStanding("Being stored", "loop", "plain", moves=True)
    words = (wait.error or {}).get("message", "Something it needs is away.")
    return ImageStanding("Waiting to be stored", "clock", "plain", words, True, wait.next_at)


def _of_entry(entry: Entry) -> ImageStanding:
    status = entry.classification_status
    trouble = entry.error["message"] if entry.error else ""
    if status is RunStatus.DONE:
        return ImageStanding(status.word, status.icon, "plain")
    if status is RunStatus.FAILED:
        return ImageStanding(status.word, status.icon, status.tone, trouble)
    if trouble:
        return ImageStanding(
            status.word, "clock", "plain", trouble, moves=True, next_at=entry.next_attempt_at
        )
    return ImageStanding("Finding its label", "loop", "plain", moves=True)


# The picture and its renditions


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """`placeholder` is there at once; `original` is what a click shows."""

    source: str
    placeholder: str | None
    original: str
    width: int | None
    height: int | None
    tint: str | None
    zooms: bool  # a browser shows the original


def below(organization: str, name: str) -> str:
    """What the API has below a name begins so."""
    return f"/api/organizations/{organization}/uploads/{quote(name, safe='')}/"


def thumbnail(organization: str, entry: Entry, side: int) -> str | None:
    if not entry.has_thumbnail:
        return None
    version = quote(entry.checksum or entry.idempotency_key, safe="")
    return f"{below(organization, entry.name)}thumbnail?size={side}&v={version}"


def picture_of(organization: str, found: FoundImage, *, originals: bool) -> ShownPicture | None:
    """None: there is nothing that a browser can show."""
    entry = found.entry
    if entry is None:
        return None
    original = f"{below(organization, entry.name)}content?v={quote(entry.idempotency_key, safe='')}"
    displayed = (entry.mime_type or "") in _DISPLAYED
    large = None if originals else thumbnail(organization, entry, _LARGE)
    if large is None and not displayed:
        return None
    small = thumbnail(organization, entry, _SMALL) if large else None
    tint = entry.dominant_color
    return ShownPicture(
        large or original, small, original, entry.width, entry.height, tint, displayed
    )


@dataclass(frozen=True, slots=True)
class RenditionRow:
    """`size` None: it is made when somebody first asks."""

    title: str
    pixels: str | None
    kind: str
    size: str | None
    address: str
    file_name: str


def renditions(
    organization: str, entry: Entry, small: int | None, large: int | None
) -> list[RenditionRow]:
    """`small` and `large` are how many bytes there are of each."""
    stem = entry.name.rpartition(".")[0] or entry.name
    drawn = [
        RenditionRow(
            words, pixels(*_within(entry, side)), "WebP", size, path, f"{stem}-{side}.webp"
        )
        for words, side, size in (
            ("Small", _SMALL, _readable(small)),
            ("Large", _LARGE, _readable(large)),
        )
        if (path := thumbnail(organization, entry, side))
    ]
    path, kind = f"{below(organization, entry.name)}content", type_in_words(entry.mime_type)
    shown, size = pixels(entry.width, entry.height), _readable(entry.size_bytes)
    return [*drawn, RenditionRow("Original", shown, kind, size, path, entry.name)]


def _readable(size: int | None) -> str | None:
    return None if size is None else readable_size(size)


def _within(entry: Entry, side: int) -> tuple[int | None, int | None]:
    """Never enlarged."""
    if not entry.width or not entry.height:
        return None, None
    scale = min(1.0, side / max(entry.width, entry.height))
    return max(1, round(entry.width * scale)), max(1, round(entry.height * scale))


def pixels(width: int | None, height: int | None) -> str | None:
    return f"{width:,} × {height:,}" if width and height else None


def megapixels(width: int | None, height: int | None) -> str | None:
    amount = (width or 0) * (height or 0) / _MEGA
    return f"{amount:.1f} MP" if amount >= 1 else None


def type_in_words(mime_type: str | None) -> str:
    name = (mime_type or "").removeprefix("image/").upper()
    return {"WEBP": "WebP", "": "Unknown"}.get(name, name)


# Labels


@dataclass(frozen=True, slots=True)
class LabelShare:
    label: str
    score: float | None
    address: str

    @property
    def percent(self) -> str | None:
        return None if self.score is None else percent(self.score)

    @property
    def unsure(self) -> bool:
        return self.score is not None and self.score < SURE


def labels(organization: str, entry: Entry | None) -> list[LabelShare]:
    """The best first. One that was labelled before runners-up were kept has its own alone."""
    if entry is None or entry.classification_label is None:
        return []
    best = (entry.classification_label, entry.classification_score)
    found = [(one["label"], one["score"]) for one in entry.labels] or [best]
    library = f"/app/{organization}/upload"
    return [
        LabelShare(label, score, library + GalleryFilter(label=label).query())
        for label, score in found
    ]


# The story


@dataclass(frozen=True, slots=True)
class StoryLine:
    """`of_another`: it tells of another upload that had the name, whose page may be known."""

    seq: int
    at: int
    sentence: Sentence
    of_another: bool = False
    elsewhere: str | None = None


def story(
    organization: str,
    found: FoundImage,
    lines: Sequence[Activity],
    submissions: Collection[str],
    *,
    inner: bool,
) -> list[StoryLine]:
    """In the order of `lines`; `submissions` are those that were made of it. Without `inner` ones
    what happened can be followed all the same."""
    return [
        StoryLine(line.seq, line.at, said, *_another(organization, found, submissions, line))
        for line in joined(lines)
        if not (said := sentence_of(line)).inner or inner
        if inner or line.data.get("to") not in _STEPS
    ]


def _another(
    organization: str, found: FoundImage, submissions: Collection[str], line: Activity
) -> tuple[bool, str | None]:
    if line.type == "submission_state_changed":
        return line.data.get("id") not in submissions, None
    image_id, marker = line.data.get("imageId"), line.data.get("idempotencyKey")
    if isinstance(image_id, str):
        mine = image_id == found.image_id
        return not mine, None if mine else address(organization, image_id, "")
    if found.marker is None or not isinstance(marker, str) or marker == found.marker:
        return False, None
    holder = found.holder if found.holder and found.holder.idempotency_key == marker else None
    return True, address(organization, holder.image_id, holder.name) if holder else None
