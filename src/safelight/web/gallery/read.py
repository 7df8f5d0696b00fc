"""From rows to cards: a page of the gallery, or the cards of given names as they are now."""

from collections.abc import Iterable
from dataclasses import dataclass

from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.ingest import repo as ingest_repo
from safelight.library import repo as library_repo
from safelight.library.entry import Entry
from safelight.library.lists import repo as lists
from safelight.web.gallery.card import Card, GalleryFilter, of_entry, of_image

PAGE_SIZE = 48
_MOST_LABELS = 200
_MOST_WAITING = 200
_FAILURES_SHOWN_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Gallery:
    """`originals` are shown where no thumbnails are made."""

    db: Database
    cursors: Cursors
    clock: Clock
    organization: str
    originals: bool = False

    async def page(
        self, wanted: GalleryFilter, cursor: str | None
    ) -> tuple[list[Card], str | None]:
        """Newest first, and the cursor of what follows. The first page has those on their way."""
        if wanted.is_wordless:
            return [], None
        purpose = f"gallery:{self.organization}{wanted.query()}"
        before = self.cursors.read(purpose, cursor)
        # Before the entries: what becomes one in between is seen twice rather than not at all.
        waiting = [] if before else await self._on_their_way(None)
        rows = await lists.page(
            self.db,
            self.organization,
            wanted.as_filters(),
            (before[0], before[1]) if before else None,
            PAGE_SIZE,
        )
        entries, last = rows[:PAGE_SIZE], rows[PAGE_SIZE - 1] if rows[PAGE_SIZE:] else None
        cards = _together(map(self._card, entries), filter(wanted.matches, waiting))
        more = self.cursors.make(purpose, [last.event_time, last.name]) if last else None
        return cards, more

    async def named(self, names: list[str]) -> list[Card]:
        waiting = await self._on_their_way(names)
        found = [await library_repo.find(self.db, self.organization, name) for name in names]
        return _together([self._card(entry) for entry in found if entry], waiting)

    async def labels(self, chosen: str | None) -> list[str]:
        known = await lists.labels(self.db, self.organization, _MOST_LABELS)
        return sorted({*known, chosen}) if chosen else known

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

    def _card(self, entry: Entry) -> Card:
        return of_entry(entry, originals=self.originals)


def _together(entries: Iterable[Card], waiting: Iterable[Card]) -> list[Card]:
    shown = list(entries)
    known = {card.name for card in shown}
    cards = [*shown, *(card for card in waiting if card.name not in known)]
    return sorted(cards, key=lambda card: card.at, reverse=True)
