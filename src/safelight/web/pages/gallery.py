"""What the library's script asks for: windows of tiles, tiles by their names, months, and the
filters as they are now."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.guard import AsViewer
from safelight.http.frame import DatabaseDep
from safelight.http.paging import LARGEST
from safelight.library.lists import repo as lists
from safelight.web.assets import compressed
from safelight.web.gallery.asked import FilterDep, FiltersFragment, gallery_of
from safelight.web.gallery.card import Card
from safelight.web.gallery.read import WINDOW, GalleryWindow
from safelight.web.gallery.tile import tile_of
from safelight.web.rendering import PagesDep

router = APIRouter(include_in_schema=False)

MOST_NAMES = 50
_MOST_MONTHS = 600
_HALF_A_DAY = 14 * 60  # minutes; no clock is further from UTC


@router.get("/app/{org}/upload/tiles")
async def tiles(
    request: Request,
    access: AsViewer,
    wanted: FilterDep,
    older: str | None = None,
    newer: str | None = None,
    at: Annotated[int | None, Query(ge=0, lt=LARGEST)] = None,
) -> Response:
    """A window: what lies behind or before a cursor, or what is as old as a moment; else the
    newest."""
    gallery = gallery_of(request, access, WINDOW)
    if newer is not None:
        window = await gallery.newer(wanted, newer)
    elif at is not None:
        window = await gallery.since(wanted, at)
    else:
        window = await gallery.page(wanted, older)
    return _answer(request, access.organization, wanted, window)


@router.get("/app/{org}/upload/tiles/named")
async def named(
    request: Request,
    access: AsViewer,
    wanted: FilterDep,
    name: Annotated[list[str], Query(max_length=MOST_NAMES)],
) -> Response:
    """As they are now; one that is gone, or does not meet the filter, is left out."""
    found = await gallery_of(request, access).named(name)
    window = GalleryWindow([card for card in found if wanted.matches(card)])
    return _answer(request, access.organization, wanted, window)


@router.get("/app/{org}/upload/months")
async def months(
    request: Request,
    access: AsViewer,
    db: DatabaseDep,
    label: Annotated[str, Query(max_length=200)] = "",
    ahead: Annotated[int, Query(ge=-_HALF_A_DAY, le=_HALF_A_DAY)] = 0,
) -> Response:
    """By a clock that is so many minutes `ahead` of UTC."""
    found = await lists.months(db, access.organization, label or None, ahead, _MOST_MONTHS)
    shown = [{"begins": one.begins, "newest": one.newest, "count": one.entries} for one in found]
    return _json(request, {"months": shown})


@router.get("/app/{org}/upload/filters")
async def filters(
    request: Request, access: AsViewer, pages: PagesDep, wanted: FilterDep
) -> Response:
    gallery = gallery_of(request, access)
    fragment = FiltersFragment(
        organization=access.organization, wanted=wanted, facets=await gallery.facets(wanted)
    )
    return await pages.render(request, fragment)


def _answer(request: Request, organization: str, wanted: Any, window: GalleryWindow) -> Response:
    def shown(card: Card) -> dict[str, Any]:
        return tile_of(organization, card, wanted).as_json()

    beyond = {"older": window.older, "newer": window.newer}
    return _json(request, {"tiles": list(map(shown, window.cards)), **beyond})


def _json(request: Request, content: dict[str, Any]) -> Response:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    body, encoding = compressed(text, request.headers.get("accept-encoding", ""))
    headers = {"vary": "accept-encoding"} | ({"content-encoding": encoding} if encoding else {})
    return Response(body, headers=headers, media_type="application/json")
