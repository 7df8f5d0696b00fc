"""From rows to cards: a page of the gallery, or the cards of given names as they are now."""

from collections.abc import Iterable
from dataclasses import dataclass

from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.ingest import repo as ingest_repo
from safelight.library import repo as library_repo
from safelight.library.entry import Entry, LibraryFilter
from safelight.library.lists import repo as lists
from safelight.library.lists.facets import Facets, facets_of
from safelight.web.gallery.card import Card, GalleryFilter, of_entry, of_image

PAGE_SIZE = 28  # tiles that come with the page
WINDOW = 120  # tiles that a script asks for
_MOST_WAITING = 200
_FAILURES_SHOWN_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class GalleryWindow:
    """Neighbouring cards, newest first, and the cursors of what lies beyond either end."""

    cards: list[Card]
    older: str | None = None
    newer: str | None = None


@dataclass(frozen=True, slots=True)
class Gallery:
    """`originals` are shown where no thumbnails are made."""

    db: Database
    cursors: Cursors
    clock: Clock
    organization: str
    originals: bool = False
    size: int = PAGE_SIZE

    async def page(self, wanted: GalleryFilter, cursor: str | None) -> GalleryWindow:
        """Newest first. The first page has those on their way."""
        if wanted.is_wordless:
            return GalleryWindow([])
        before = self._place(wanted, cursor)
        # Before the entries: what becomes one in between is seen twice rather than not at all.
        waiting = [] if before else await self._on_their_way(None)
        entries, more = await self._older(wanted, before)
        cards = _together(map(self.card, entries), filter(wanted.matches, waiting))
        newer = self._cursor(wanted, entries[0]) if before and entries else None
        return GalleryWindow(cards, self._cursor(wanted, entries[-1]) if more else None, newer)

    async def since(self, wanted: GalleryFilter, at: int) -> GalleryWindow:
        """What is as old as a moment, or older."""
        if wanted.is_wordless:
            return GalleryWindow([])
        entries, more = await self._older(wanted, (at + 1, ""))
        return GalleryWindow(
            list(map(self.card, entries)),
            self._cursor(wanted, entries[-1]) if more else None,
            self._cursor(wanted, entries[0]) if entries else None,
        )

    async def newer(self, wanted: GalleryFilter, cursor: str) -> GalleryWindow:
        """What lies between a place and the newest. At that end are those on their way."""
        if wanted.is_wordless:
            return GalleryWindow([])
        after = self._place(wanted, cursor) or (0, "")
        waiting = await self._on_their_way(None)
        rows = await lists.following(
            self.db, self.organization, wanted.as_filters(), after, self.size + 1
        )
        entries = rows[-self.size :]
        if len(rows) > self.size:
            return GalleryWindow(
                list(map(self.card, entries)), None, self._cursor(wanted, entries[0])
            )
        return GalleryWindow(_together(map(self.card, entries), filter(wanted.matches, waiting)))

    async def facets(self, wanted: GalleryFilter) -> Facets:
        if wanted.is_wordless:
            return facets_of([], LibraryFilter(), capped=False)
        return await lists.facets(self.db, self.organization, wanted.as_filters())

    async def _older(
        self, wanted: GalleryFilter, before: tuple[int, str] | None
    ) -> tuple[list[Entry], bool]:
        rows = await lists.page(self.db, self.organization, wanted.as_filters(), before, self.size)
        return rows[: self.size], bool(rows[self.size :])

    def _place(self, wanted: GalleryFilter, cursor: str | None) -> tuple[int, str] | None:
        place = self.cursors.read(self._purpose(wanted), cursor)
        return (place[0], place[1]) if place else None

    def _cursor(self, wanted: GalleryFilter, entry: Entry) -> str:
        return self.cursors.make(self._purpose(wanted), [entry.event_time, entry.name])

    def _purpose(self, wanted: GalleryFilter) -> str:
        return f"gallery:{self.organization}{wanted.query()}"

    async def named(self, names: list[str]) -> list[Card]:
        waiting = await self._on_their_way(names)
        found = [await library_repo.find(self.db, self.organization, name) for name in names]
        return _together([self.card(entry) for entry in found if entry], waiting)

    async def name_of(self, image_id: str | None) -> str | None:
        """Of an image that is ours; ids in addresses can be made up."""
        image = await ingest_repo.find(self.db, image_id) if image_id else None
        return image.name if image and image.organization == self.organization else None

    async def _on_their_way(self, names: list[str] | None) -> list[Card]:
        since = self.clock.now_ms() - _FAILURES_SHOWN_MS
        images = await ingest_repo.on_their_way(
            self.db, self.organization, names, failed_since=since, limit=5 * _MOST_WAITING
        )
        received = {image.name: image.created_at for image in images}
        coming = await library_repo.still_to_come(self.db, self.organization, received)
        shown = [image for image in images if image.name in coming][:_MOST_WAITING]
        failures = await ingest_repo.failures(self.db, self.organization, shown)
        return [
            of_image(image, failures.get(image.id, {}).get("message"), originals=self.originals)
            for image in shown
        ]

    def card(self, entry: Entry) -> Card:
        return of_entry(entry, originals=self.originals)


def _together(entries: Iterable[Card], waiting: Iterable[Card]) -> list[Card]:
    shown = list(entries)
    known = {card.name for card in shown}
    cards = [*shown, *(card for card in waiting if card.name not in known)]
    return sorted(cards, key=lambda card: card.at, reverse=True)
