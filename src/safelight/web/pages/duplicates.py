"""Images that look alike, in groups: to choose which of them to keep."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.access import Role
from safelight.accounts.guard import AsViewer
from safelight.classification.similar.twins import Group, Twins
from safelight.http.frame import SettingsDep, provided
from safelight.http.paging import CursorsDep
from safelight.library.entry import Entry
from safelight.web.gallery.card import of_entry
from safelight.web.gallery.tile import Tile, tile_of
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)

PER_PAGE = 20


@dataclass(frozen=True, slots=True)
class ShownGroup:
    group: Group
    tiles: list[Tile]

    @property
    def title(self) -> str:
        alike = "identical copies" if self.group.identical else "images that look alike"
        return f"{self.group.count} {alike}"

    @property
    def more(self) -> int:
        """Not shown."""
        return self.group.count - len(self.tiles)

    @property
    def percent(self) -> str:
        """Of the one that is least like its nearest. Only copies are wholly alike."""
        least = min((likeness for _, likeness in self.group.entries), default=1)
        return "" if self.group.identical else f"{min(round(least * 100), 99)} % alike"


@dataclass(frozen=True, kw_only=True)
class DuplicatesPage(Context):
    template: ClassVar[str] = "duplicates.html"
    title: str = "Duplicates"
    organization: str
    may_change: bool
    groups: list[ShownGroup]
    newest: bool
    more: str | None


@router.get("/app/{org}/upload/duplicates")
async def duplicates_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    twins: Annotated[Twins, provided(Twins)],
    cursors: CursorsDep,
    settings: SettingsDep,
    cursor: str | None = None,
) -> Response:
    purpose = f"duplicates-page:{access.organization}"
    before = (cursors.read(purpose, cursor) or [None])[0]
    found = await twins.page(access.organization, before, PER_PAGE)
    shown, originals = found[:PER_PAGE], settings.thumbnails == "off"
    page = DuplicatesPage(
        organization=access.organization,
        may_change=access.caller.organizations[access.organization] >= Role.MEMBER,
        groups=[
            ShownGroup(one, [_tile(entry, originals=originals) for entry, _ in one.entries])
            for one in shown
        ],
        newest=cursor is None,
        more=cursors.make(purpose, [shown[-1].number]) if found[PER_PAGE:] else None,
    )
    return await pages.render(request, page)


def _tile(entry: Entry, *, originals: bool) -> Tile:
    return tile_of(entry.organization, of_entry(entry, originals=originals))
