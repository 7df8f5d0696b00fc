"""What looks like an image, and images that look alike."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from safelight.accounts.guard import AsViewer
from safelight.classification.similar.answers import DuplicatesAnswer, SimilarsAnswer
from safelight.classification.similar.similar import Similar
from safelight.classification.similar.twins import Group, Twins
from safelight.http.described import Described, PageOf
from safelight.http.frame import provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.library.entry import Entry
from safelight.library.routes import show

router = APIRouter(tags=["library"], prefix="/api/organizations/{org}", route_class=Described)

_DIGITS = 4


@router.get(
    "/uploads/{name}/similar",
    summary="What looks like it, the most similar first",
    response_model=SimilarsAnswer,
)
async def similar(
    name: str,
    access: AsViewer,
    service: Annotated[Similar, provided(Similar)],
    limit: Annotated[int, Query(ge=1, le=200, description="How many, 1 to 200.")] = 20,
) -> dict[str, Any]:
    """`similarity` is 1 for what a classifier cannot tell apart, and seldom below 0.3."""
    found = await service.find(access.organization, name, limit)
    return {"items": [show_similar(entry, likeness) for entry, likeness in found]}


@router.get(
    "/duplicates",
    summary="Images that look alike, in groups; the last found first",
    response_model=PageOf[DuplicatesAnswer],
)
async def duplicates(
    access: AsViewer,
    service: Annotated[Twins, provided(Twins)],
    cursors: CursorsDep,
    wanted: PageRequest,
) -> dict[str, Any]:
    """Copies, other sizes and crops of one picture, found within a minute or two of their labels.
    Of a large group the first 50 by name."""
    limit, cursor = wanted
    purpose = f"duplicates:{access.organization}"
    before = (cursors.read(purpose, cursor) or [None])[0]
    groups = await service.page(access.organization, before, limit)
    return page(groups, limit, _show_group, lambda one: cursors.make(purpose, [one.number]))


def _show_group(group: Group) -> dict[str, Any]:
    return {
        "id": str(group.number),
        "count": group.count,
        "identical": group.identical,
        "items": [show_similar(entry, likeness) for entry, likeness in group.entries],
    }


def show_similar(entry: Entry, similarity: float) -> dict[str, Any]:
    return show(entry) | {"similarity": round(similarity, _DIGITS)}
