"""What could be submitted, as pictures to choose from: the newest images of the library, and what
was generated."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from safelight.generations.artifacts import repo as artifacts
from safelight.infra.db import Database
from safelight.library.entry import Entry, LibraryFilter
from safelight.library.lists import repo as lists
from safelight.library.repo import find
from safelight.objects.keys import prefix_query, words
from safelight.web.gallery.card import of_entry
from safelight.web.image.shown import below
from safelight.web.publication.pictures import made_picture

PER_PAGE = 48
MADE = 24
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class SourceTile:
    """`source` is what a form sends: `upload:name` or `artifact:id`."""

    source: str
    name: str
    picture: str | None

    @classmethod
    def of_upload(cls, entry: Entry, *, originals: bool) -> "SourceTile":
        card = of_entry(entry, originals=originals)
        path = below(entry.organization, entry.name)
        picture = f"{path}{card.picture}" if card.picture else None
        return cls(f"upload:{entry.name}", entry.name, picture)

    @classmethod
    def of_artifact(
        cls, artifact_id: str, checksum: str, prompt: str, *, originals: bool
    ) -> "SourceTile":
        name = prompt[:_LONGEST_NAME] or "Generated picture"
        picture = made_picture(artifact_id, checksum, originals=originals)
        return cls(f"artifact:{artifact_id}", name, picture)


@dataclass(frozen=True, slots=True)
class PickedPage:
    """`more` is the place of the last upload, behind which there are others."""

    uploads: list[SourceTile]
    made: list[SourceTile]
    more: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class Picker:
    """`originals` are shown where no thumbnails are made."""

    db: Database
    organization: str
    originals: bool

    async def page(self, q: str, before: tuple[int, str] | None) -> PickedPage:
        query = prefix_query(q) if q else None
        if q and query is None:
            return PickedPage([], [], None)
        wanted = LibraryFilter(query=query)
        rows = await lists.page(self.db, self.organization, wanted, before, PER_PAGE)
        uploads = [SourceTile.of_upload(row, originals=self.originals) for row in rows[:PER_PAGE]]
        last = rows[PER_PAGE - 1] if rows[PER_PAGE:] else None
        made = [] if before else await self._made(q)
        return PickedPage(uploads, made, (last.event_time, last.name) if last else None)

    async def chosen(self, source: str) -> SourceTile | None:
        """The tile of what an address or a form names, wherever in the lists it is."""
        kind, _, name = source.partition(":")
        if kind == "upload" and name:
            entry = await find(self.db, self.organization, name)
            if entry is not None:
                return SourceTile.of_upload(entry, originals=self.originals)
            return SourceTile(source, name, None)
        if kind == "artifact":
            known = await artifacts.of_ids(self.db, self.organization, [name])
            return self._of_made(name, known[name].checksum, "") if name in known else None
        return None

    async def _made(self, q: str) -> list[SourceTile]:
        found = await artifacts.pictures(self.db, self.organization, words(q), MADE)
        return [self._of_made(*each) for each in found]

    def _of_made(self, artifact_id: str, checksum: str, prompt: str) -> SourceTile:
        return SourceTile.of_artifact(artifact_id, checksum, prompt, originals=self.originals)


def new_address(organization: str, **query: str | None) -> str:
    """Of the page on which a picture is chosen."""
    given = {name: value for name, value in query.items() if value}
    path = f"/app/{quote(organization, safe='')}/submissions/new"
    return f"{path}?{urlencode(given)}" if given else path
