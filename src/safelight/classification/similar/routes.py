"""What looks like an image."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from safelight.accounts.guard import AsViewer
from safelight.classification.similar.answers import SimilarsAnswer
from safelight.classification.similar.similar import Similar
from safelight.http.described import Described
from safelight.http.frame import provided
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


def show_similar(entry: Entry, similarity: float) -> dict[str, Any]:
    return show(entry) | {"similarity": round(similarity, _DIGITS)}
