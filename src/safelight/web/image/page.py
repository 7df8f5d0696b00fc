"""What the template of an image's page sees."""

from dataclasses import dataclass
from typing import ClassVar

from safelight.accounts.access import Role
from safelight.accounts.guard import Access
from safelight.library.entry import Entry
from safelight.submissions.lifecycle import SubmissionState
from safelight.web.gallery.card import Card, GalleryFilter, readable_size
from safelight.web.image.read import Neighbour, ShownSubmission
from safelight.web.image.shown import (
    FoundImage,
    ImageStanding,
    LabelShare,
    RenditionRow,
    ShownPicture,
    StoryLine,
    address,
    below,
    megapixels,
    pixels,
    type_in_words,
)
from safelight.web.rendering import Context

LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class AlikeTile:
    card: Card
    address: str


@dataclass(frozen=True, slots=True)
class Rights:
    """What the visitor may do here."""

    change: bool
    decide: bool
    redrive: bool

    @classmethod
    def of(cls, access: Access) -> "Rights":
        role = access.caller.organizations[access.organization]
        return cls(role >= Role.MEMBER, role >= Role.APPROVER, role >= Role.ADMIN)


@dataclass(frozen=True, kw_only=True)
class ImagePage(Context):
    template: ClassVar[str] = "image.html"
    organization: str
    found: FoundImage
    standing: ImageStanding
    rights: Rights
    picture: ShownPicture | None
    labels: list[LabelShare]
    uploader: str | None
    renditions: list[RenditionRow]
    submissions: list[ShownSubmission]
    story: list[StoryLine]
    before: int | None  # the seq behind which more of the story is
    details: bool
    alike: list[AlikeTile]
    alike_words: str
    newer: Neighbour | None
    older: Neighbour | None
    wanted: GalleryFilter
    redrivable: bool
    public: str
    problem: str | None = None
    typed: str = ""
    longest_title: ClassVar[int] = LONGEST_TITLE

    @property
    def here(self) -> str:
        return address(self.organization, self.found.image_id, self.found.name, self.wanted)

    def here_with(self, **more: str | None) -> str:
        query = self.wanted.query(name=None if self.found.image_id else self.found.name, **more)
        return address(self.organization, self.found.image_id, "").partition("?")[0] + query

    @property
    def library(self) -> str:
        return f"/app/{self.organization}/upload"

    @property
    def back(self) -> str:
        return self.library + self.wanted.query()

    @property
    def api(self) -> str:
        return below(self.organization, self.found.name).removesuffix("/")

    @property
    def entry(self) -> Entry | None:
        return self.found.entry

    @property
    def holder(self) -> str | None:
        """The page of whoever has the name now instead."""
        other = self.found.holder
        return address(self.organization, other.image_id, other.name) if other else None

    @property
    def pixels(self) -> str | None:
        one = self.entry or self.found.image
        words = (pixels(one.width, one.height), megapixels(one.width, one.height)) if one else ()
        return " · ".join(filter(None, words)) or None

    @property
    def size(self) -> str | None:
        one = self.entry or self.found.image
        return readable_size(one.size_bytes) if one and one.size_bytes is not None else None

    @property
    def kind(self) -> str | None:
        one = self.entry or self.found.image
        return type_in_words(one.mime_type) if one else None

    @property
    def checksum(self) -> str | None:
        one = self.entry or self.found.image
        return one.checksum if one else None

    @property
    def published(self) -> bool:
        return any(one.submission.state is SubmissionState.PUBLISHED for one in self.submissions)

    @property
    def may_publish(self) -> bool:
        """One at a time."""
        going = any(
            one.submission.state
            not in {SubmissionState.REJECTED, SubmissionState.WITHDRAWN}
            for one in self.submissions
        )  # fmt: skip
        return self.rights.change and self.entry is not None and not going

    @property
    def about(self) -> str:
        """Ids whose news concern the page."""
        ids = [self.found.image_id or ""]
        for one in self.submissions:
            ids += [one.submission.id, one.submission.approval_id or ""]
        return " ".join(filter(None, ids))


@dataclass(frozen=True, slots=True)
class AskedImage:
    """What the address, or a form that was refused, says besides which image it is."""

    wanted: GalleryFilter
    before: int | None = None
    details: bool = False
    problem: str | None = None
    typed: str = ""
