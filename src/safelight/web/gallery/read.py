"""From rows to cards: a page of the gallery, or the cards of given names as they are now."""

from collections.abc import Iterable
from dataclasses import dataclass

from safelight.classification import repo as classification_repo
from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.ingest import repo as ingest_repo
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.library import repo as library_repo
from safelight.library.entry import Entry
from safelight.web.gallery.card import TROUBLED, Card, GalleryFilter, of_entry, of_image

PAGE_SIZE = 48
_MOST_LABELS = 200
_MOST_WAITING = 200
_FAILURES_SHOWN_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Gallery:
    db: Database
    cursors: Cursors
    clock: Clock
    organization: str

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
        rows = await library_repo.page(
            self.db,
            self.organization,
            wanted.as_filters(),
            (before[0], before[1]) if before else None,
            PAGE_SIZE,
        )
        entries, last = rows[:PAGE_SIZE], rows[PAGE_SIZE - 1] if rows[PAGE_SIZE:] else None
        cards = _together(await self._of_entries(entries), filter(wanted.matches, waiting))
        more = self.cursors.make(purpose, [last.event_time, last.name]) if last else None
        return cards, more

    async def named(self, names: list[str]) -> list[Card]:
        waiting = await self._on_their_way(names)
        found = [await library_repo.find(self.db, self.organization, name) for name in names]
        entries = [entry for entry in found if entry is not None]
        return _together(await self._of_entries(entries), waiting)

    async def labels(self, chosen: str | None) -> list[str]:
        known = await library_repo.labels(self.db, self.organization, _MOST_LABELS)
        return sorted({*known, chosen}) if chosen else known

    async def name_of(self, image_id: str | None) -> str | None:
        """Of an image that is ours; ids in addresses can be made up."""
        image = await ingest_repo.find(self.db, image_id) if image_id else None
        return image.name if image and image.organization == self.organization else None

    async def _of_entries(self, entries: list[Entry]) -> list[Card]:
        markers = {
            entry.name: entry.idempotency_key
            for entry in entries
            if entry.classification_status in TROUBLED
        }
        words = (
            await classification_repo.troubles(self.db, self.organization, markers)
            if markers
            else {}
        )
        return [of_entry(entry, words.get(entry.name)) for entry in entries]

    async def _on_their_way(self, names: list[str] | None) -> list[Card]:
        since = self.clock.now_ms() - _FAILURES_SHOWN_MS
        images = await ingest_repo.on_their_way(
            self.db, self.organization, names, failed_since=since, limit=5 * _MOST_WAITING
        )
        received = {image.name: image.created_at for image in images}
        coming = await library_repo.still_to_come(self.db, self.organization, received)
        shown = [image for image in images if image.name in coming][:_MOST_WAITING]
        return [of_image(image, await self._failure(image)) for image in shown]

    async def _failure(self, image: Image) -> str | None:
        if image.status is not ImageStatus.FAILED:
            return None
        failure = await ingest_repo.failure(self.db, self.organization, image.id)
        return str(failure["message"]) if failure else None


def _together(entries: list[Card], waiting: Iterable[Card]) -> list[Card]:
    known = {card.name for card in entries}
    cards = [*entries, *(card for card in waiting if card.name not in known)]
    return sorted(cards, key=lambda card: card.at, reverse=True)
