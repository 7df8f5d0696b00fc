"""Many images at once: how many there are, which bytes are here already, and deleting by names."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import JSONResponse

from safelight.accounts.guard import AsMember, AsViewer
from safelight.errors import NotFound
from safelight.http.described import Described
from safelight.http.frame import DatabaseDep, ReadsDep, provided
from safelight.ingest.coming import repo as coming
from safelight.library.answers import DeletedUploadsAnswer, FacetsAnswer, KnownUploadsAnswer
from safelight.library.deletion import UploadDeletion
from safelight.library.entry import KnownUpload, LibraryFilter, entry_status
from safelight.library.lists import repo
from safelight.library.routes import ShownStatus, query_of, request_deletion

# Nothing here is a GET below `uploads/`: there every address is that of a name.
router = APIRouter(tags=["library"], prefix="/api/organizations/{org}", route_class=Described)

MOST_CHECKSUMS = 500
MOST_DELETED = 200
_AT_ONCE = 8

Checksum = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$", to_lower=True, strip_whitespace=False)
]


class ChecksumsBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    checksums: Annotated[list[Checksum], Field(max_length=MOST_CHECKSUMS)]


class DeletionsBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    names: Annotated[list[str], Field(max_length=MOST_DELETED)]


@router.get("/facets", summary="How many there are", response_model=FacetsAnswer)
async def facets(
    access: AsViewer,
    db: ReadsDep,
    label: Annotated[str | None, Query(max_length=200, description="Exactly this label.")] = None,
    q: Annotated[str | None, Query(max_length=500, description="Words of name or label.")] = None,
    status: Annotated[ShownStatus | None, Query(description="Classification status.")] = None,
) -> dict[str, Any]:
    """Of each label and state, under all the other filters: what choosing it would show. The 200
    most frequent labels. Counting ends at 100,000 of each, and at the newest 10,000 that words
    find; `capped` says that it did."""
    wanted = LibraryFilter(label, query_of(q), entry_status(status))
    found = await repo.facets(db, access.organization, wanted)
    return {
        "total": found.total,
        "labels": [{"label": one.label, "count": one.count} for one in found.labels],
        "statuses": [{"status": one.status, "count": one.count} for one in found.statuses],
        "capped": found.capped,
    }


@router.post(
    "/uploads/known",
    summary="Which of these bytes are here already",
    response_model=KnownUploadsAnswer,
)
async def known(body: ChecksumsBody, access: AsMember, db: DatabaseDep) -> dict[str, Any]:
    """By SHA-256, so that nobody has to send what is here. One image for each that is in the
    library or on its way there; up to 500 checksums."""
    asked = list(dict.fromkeys(body.checksums))
    # Before the entries: what becomes one in between is seen twice rather than not at all.
    on_their_way = await coming.with_checksums(db, access.organization, asked)
    here = await repo.with_checksums(db, access.organization, asked)
    found = {one.checksum: one for one in (*(KnownUpload(*each) for each in on_their_way), *here)}
    shown = [found[checksum] for checksum in asked if checksum in found]
    return {
        "known": [
            {"checksum": one.checksum, "name": one.name, "imageId": one.image_id} for one in shown
        ]
    }


@router.post(
    "/uploads/delete",
    status_code=202,
    summary="Delete several for good",
    response_model=DeletedUploadsAnswer,
)
async def delete_many(
    body: DeletionsBody,
    access: AsMember,
    db: DatabaseDep,
    deletion: Annotated[UploadDeletion, provided(UploadDeletion)],
) -> JSONResponse:
    """Each as if it were deleted by itself; up to 200 names. `unknown` are those that never were.
    Where something goes wrong with one, the others are deleted all the same; send it again."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> bool:
        async with turns:
            try:
                await request_deletion(name, access, db, deletion)
            except NotFound:
                return False
            return True

    names = list(dict.fromkeys(body.names))
    ended = await asyncio.gather(*map(one, names), return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
    unknown = [name for name, known in zip(names, ended, strict=True) if not known]
    return JSONResponse({"deleted": len(names) - len(unknown), "unknown": unknown}, 202)
