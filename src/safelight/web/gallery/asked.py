"""What is asked of the gallery, and what its filters show."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fastapi import Depends, Query
from starlette.requests import Request

from safelight.accounts.guard import Access
from safelight.errors import InvalidRequest
from safelight.http.frame import services
from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.library.entry import entry_status
from safelight.library.lists.facets import Facets
from safelight.settings import Settings
from safelight.web.gallery.card import STATUS_WORDS, GalleryFilter
from safelight.web.gallery.read import PAGE_SIZE, Gallery
from safelight.web.rendering import Context

_MOST_LABELS = 60  # the search finds the others


def filter_from(
    q: Annotated[str, Query(max_length=500)] = "",
    label: Annotated[str, Query(max_length=200)] = "",
    status: Annotated[str, Query(max_length=20)] = "",
) -> GalleryFilter:
    """A form sends its empty fields too; they ask for nothing."""
    chosen = entry_status(status)
    if status and chosen is None:
        raise InvalidRequest("Choose one of the states in the list.")
    return GalleryFilter(q.strip() or None, label or None, chosen)


FilterDep = Annotated[GalleryFilter, Depends(filter_from)]


@dataclass(frozen=True, slots=True)
class FilterChoice:
    words: str
    count: int
    address: str
    current: bool


@dataclass(frozen=True, kw_only=True)
class FiltersFragment(Context):
    """How many there are, and what may be chosen from."""

    template: ClassVar[str] = "upload_filters.html"
    title: str = "Library"
    organization: str
    wanted: GalleryFilter
    facets: Facets

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/upload"

    @property
    def total(self) -> str:
        return f"{self.facets.total:,}" + ("+" if self.facets.capped else "")

    @property
    def labels(self) -> list[FilterChoice]:
        return [
            FilterChoice(one.label.capitalize(), one.count, self._with(label=one.label), current)
            for one in self.facets.labels[:_MOST_LABELS]
            for current in [one.label == self.wanted.label]
        ]

    @property
    def statuses(self) -> list[FilterChoice]:
        return [
            FilterChoice(
                STATUS_WORDS[one.status], one.count, self._with(status=one.status), current
            )
            for one in self.facets.statuses
            for current in [one.status == self.wanted.status]
            if one.count or current
        ]

    @property
    def label_words(self) -> str | None:
        return self.wanted.label and self.wanted.label.capitalize()

    @property
    def status_words(self) -> str | None:
        return STATUS_WORDS[self.wanted.status] if self.wanted.status else None

    @property
    def any_label(self) -> str:
        return self._with(label=None)

    @property
    def any_status(self) -> str:
        return self._with(status=None)

    def _with(self, **chosen: str | None) -> str:
        return self.here + replace(self.wanted, **chosen).query()  # type: ignore[arg-type]


def gallery_of(request: Request, access: Access, size: int = PAGE_SIZE) -> Gallery:
    find = services(request).get
    originals = find(Settings).thumbnails == "off"
    return Gallery(find(Database), find(Cursors), find(Clock), access.organization, originals, size)
