"""The gallery and upload page. Without scripts it lists, searches, uploads and deletes by forms;
with them the same cards, rendered here, come and go by themselves."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsMember, AsViewer
from safelight.errors import InvalidRequest, NotFound, SafelightError
from safelight.http.frame import DatabaseDep, provided, services
from safelight.http.paging import Cursors
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.ingest.accept import Ingest, OnConflict
from safelight.ingest.routes import receive
from safelight.library.deletion import UploadDeletion
from safelight.library.entry import EntryStatus, entry_status
from safelight.library.repo import find, was_ever_seen
from safelight.library.routes import request_deletion
from safelight.settings import Settings
from safelight.web.gallery.card import STATUS_WORDS, Card, GalleryFilter
from safelight.web.gallery.read import Gallery
from safelight.web.rendering import Context, PagesDep
from safelight.web.tray import Tray, tray_of

router = APIRouter(include_in_schema=False)

MOST_NAMES = 50
_LOOKS, _BETWEEN_LOOKS = 20, 0.1


@dataclass(frozen=True, kw_only=True)
class CardsFragment(Context):
    template: ClassVar[str] = "upload_cards.html"
    title: str = "Library"
    organization: str
    may_change: bool
    cards: list[Card]


@dataclass(frozen=True, kw_only=True)
class UploadPage(CardsFragment):
    template: ClassVar[str] = "upload.html"
    address: str
    accepted: tuple[str, ...]
    tray: Tray
    wanted: GalleryFilter
    labels: list[str]
    newest: bool  # the first page, where new images appear
    more: str | None  # cursor of the next page
    received: str | None = None
    deleted: bool = False
    problem: str | None = None
    statuses: ClassVar[dict[EntryStatus, str]] = STATUS_WORDS

    @property
    def accept(self) -> str:
        """For the browser's file dialogue. Many systems know HEIC by its extension only."""
        extensions = (".heic",) if "image/heic" in self.accepted else ()
        return ",".join((*self.accepted, *extensions))

    @property
    def formats(self) -> str:
        names = (kind.removeprefix("image/").upper() for kind in self.accepted)
        return ", ".join(names).replace("WEBP", "WebP")


@dataclass(frozen=True, kw_only=True)
class DeletePage(Context):
    template: ClassVar[str] = "upload_delete.html"
    title: str = "Delete an image"
    organization: str
    name: str


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


@router.get("/app/{org}/upload")
async def upload_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    wanted: FilterDep,
    cursor: str | None = None,
    received: str | None = None,
    deleted: bool = False,
) -> Response:
    page = await _page(request, access, wanted, cursor, received=received, deleted=deleted)
    return await pages.render(request, page)


@router.post("/app/{org}/upload")
async def upload_by_form(
    request: Request,
    access: AsMember,
    pages: PagesDep,
    ingest: Annotated[Ingest, provided(Ingest)],
) -> Response:
    """What POST /api/upload does, for a form: it comes back to the page."""
    try:
        image = await receive(request, access, ingest, on_conflict=OnConflict.RENAME)
    except SafelightError as error:
        ingest.account_failure(error, error.__cause__)
        page = await _page(request, access, GalleryFilter(), None, problem=error.message)
        return await pages.render(request, page, error.status)
    return RedirectResponse(f"/app/{access.organization}/upload?received={image.id}", 303)


@router.get("/app/{org}/upload/cards")
async def cards(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    wanted: FilterDep,
    name: Annotated[list[str], Query(max_length=MOST_NAMES)],
) -> Response:
    """Of these names as they are now, without the page; one that is gone is left out."""
    found = await _gallery(request, access).named(name)
    fragment = CardsFragment(
        organization=access.organization,
        may_change=_may_change(access),
        cards=[card for card in found if wanted.matches(card)],
    )
    return await pages.render(request, fragment)


@router.get("/app/{org}/upload/delete")
async def confirm_delete(
    request: Request, access: AsMember, pages: PagesDep, db: DatabaseDep, name: str
) -> Response:
    if not await was_ever_seen(db, access.organization, name):
        raise NotFound(f"There is no image called {name}.")
    return await pages.render(request, DeletePage(organization=access.organization, name=name))


@router.post("/app/{org}/upload/delete")
async def delete_by_form(
    access: AsMember,
    db: DatabaseDep,
    deletion: Annotated[UploadDeletion, provided(UploadDeletion)],
    name: Annotated[str, Form()] = "",
) -> Response:
    await request_deletion(name, access, db, deletion)
    await _until_gone(db, access.organization, name)
    return RedirectResponse(f"/app/{access.organization}/upload?deleted=true", 303)


async def _until_gone(db: Database, organization: str, name: str) -> None:
    """The entry follows its object in a moment; without scripts nothing would tell of that."""
    for _ in range(_LOOKS):
        if await find(db, organization, name) is None:
            return
        await asyncio.sleep(_BETWEEN_LOOKS)


async def _page(
    request: Request,
    access: Access,
    wanted: GalleryFilter,
    cursor: str | None,
    *,
    received: str | None = None,
    deleted: bool = False,
    problem: str | None = None,
) -> UploadPage:
    registry, gallery = services(request), _gallery(request, access)
    settings = registry.get(Settings)
    # Before the cards are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(gallery.db, gallery.organization)
    shown, more = await gallery.page(wanted, cursor)
    return UploadPage(
        organization=gallery.organization,
        may_change=_may_change(access),
        cards=shown,
        address=settings.public_url or str(request.base_url).rstrip("/"),
        accepted=settings.accepted_types,
        tray=tray_of(access, settings),
        wanted=wanted,
        labels=await gallery.labels(wanted.label),
        after=newest,
        newest=cursor is None,
        more=more,
        received=await gallery.name_of(received),
        deleted=deleted,
        problem=problem,
    )


def _gallery(request: Request, access: Access) -> Gallery:
    find = services(request).get
    originals = find(Settings).thumbnails == "off"
    return Gallery(find(Database), find(Cursors), find(Clock), access.organization, originals)


def _may_change(access: Access) -> bool:
    return access.caller.organizations[access.organization] >= Role.MEMBER
