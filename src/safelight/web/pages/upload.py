"""The library: a gallery, and where images are uploaded. Without scripts it lists, searches,
uploads and deletes by forms; with them the same tiles come and go by themselves (gallery.py)."""

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsMember, AsViewer
from safelight.classification.similar.similar import Similar
from safelight.errors import NotFound, SafelightError
from safelight.http.frame import DatabaseDep, provided, services
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.ingest.accept import Ingest, OnConflict
from safelight.ingest.routes import receive
from safelight.library.deletion import UploadDeletion
from safelight.library.repo import find, was_ever_seen
from safelight.library.routes import request_deletion
from safelight.settings import Settings
from safelight.web.gallery.asked import FilterDep, FiltersFragment, gallery_of
from safelight.web.gallery.card import GalleryFilter, of_entry
from safelight.web.gallery.tile import Tile, tile_of
from safelight.web.image.read import alike
from safelight.web.rendering import Context, PagesDep
from safelight.web.tray import Tray, tray_of

router = APIRouter(include_in_schema=False)

MOST_ALIKE = 60
_LOOKS, _BETWEEN_LOOKS = 20, 0.1


@dataclass(frozen=True, kw_only=True)
class UploadPage(FiltersFragment):
    template: ClassVar[str] = "upload.html"
    may_change: bool
    tiles: list[Tile]
    accepted: tuple[str, ...]
    tray: Tray
    newest: bool  # the first page, where new images appear
    older: str | None  # cursor of the next page
    newer: str | None = None
    like: Tile | None = None  # what all of them look like
    like_words: str = ""
    received: str | None = None
    deleted: bool = False
    problem: str | None = None

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


@router.get("/app/{org}/upload")
async def upload_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    wanted: FilterDep,
    cursor: str | None = None,
    like: Annotated[str | None, Query(max_length=1024)] = None,
    received: str | None = None,
    deleted: bool = False,
) -> Response:
    page = await _page(request, access, wanted, cursor, received=received, deleted=deleted)
    if like:
        page = await _alike(request, page, like)
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
    gallery = gallery_of(request, access)
    # Before the cards are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(gallery.db, gallery.organization)
    window, facets = await asyncio.gather(gallery.page(wanted, cursor), gallery.facets(wanted))
    return UploadPage(
        organization=gallery.organization,
        tray=tray_of(access, services(request).get(Settings)),
        wanted=wanted,
        facets=facets,
        may_change=_may_change(access),
        tiles=[tile_of(gallery.organization, card, wanted) for card in window.cards],
        accepted=services(request).get(Settings).accepted_types,
        after=newest,
        newest=cursor is None,
        older=window.older,
        newer=window.newer,
        received=await gallery.name_of(received),
        deleted=deleted,
        problem=problem,
    )


async def _alike(request: Request, page: UploadPage, name: str) -> UploadPage:
    """What looks like an image, the most similar first, in place of the newest."""
    registry, organization = services(request), page.organization
    entry = None if "\0" in name else await find(registry.get(Database), organization, name)
    if entry is None:
        raise NotFound(f"There is no image called {name}.")
    near, words = await alike(registry.get(Similar), entry, MOST_ALIKE)
    originals = registry.get(Settings).thumbnails == "off"
    own, *tiles = (
        tile_of(organization, of_entry(one, originals=originals)) for one in (entry, *near)
    )
    return replace(page, tiles=tiles, older=None, newest=False, like=own, like_words=words)


def _may_change(access: Access) -> bool:
    return access.caller.organizations[access.organization] >= Role.MEMBER
