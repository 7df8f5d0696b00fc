"""Small pictures of an entry, for galleries and for a screen."""

import hashlib
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from safelight.accounts.guard import AsViewer
from safelight.errors import NotFound
from safelight.http.content import ASK_AGAIN, FOR_EVER, Stored, respond, soon
from safelight.http.described import Described, bytes_of
from safelight.http.frame import DatabaseDep, provided
from safelight.library.thumbnails import repo
from safelight.library.thumbnails.large import TYPE, LargeThumbnails
from safelight.objects.store import ObjectStore

router = APIRouter(
    tags=["library"], prefix="/api/organizations/{org}/uploads", route_class=Described
)


@router.get(
    "/{name}/thumbnail",
    summary="A small picture of it",
    responses=bytes_of(TYPE, says="Upright, without metadata, never enlarged."),
)
@router.head("/{name}/thumbnail", include_in_schema=False)
async def thumbnail(
    name: str,
    request: Request,
    access: AsViewer,
    db: DatabaseDep,
    store: Annotated[ObjectStore, provided(ObjectStore)],
    larges: Annotated[LargeThumbnails, provided(LargeThumbnails)],
    size: Annotated[
        Literal["320", "1280"], Query(description="The most pixels of its longer side.")
    ] = "320",
    v: Annotated[
        str | None, Query(max_length=64, description="The entry's `checksum`: cached for ever.")
    ] = None,
) -> Response:
    """The small one is made with the label, the large one when somebody first asks."""
    organization = access.organization
    async with soon():
        if size == "320":
            stored = await _small(db, organization, name, v)
        else:
            stored = await _large(larges, store, organization, name, v)
        return await respond(request, stored)


async def _small(db: DatabaseDep, organization: str, name: str, version: str | None) -> Stored:
    found = await repo.small(db, organization, name)
    if found is None:
        raise NotFound(f"There is no thumbnail of {name}.")

    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        return _piece(found.data[start:stop])

    etag = _etag(found.marker, "320", found.made_at)
    return Stored(len(found.data), TYPE, etag, read, None, _caching(found.checksum, version))


async def _large(
    larges: LargeThumbnails, store: ObjectStore, organization: str, name: str, version: str | None
) -> Stored:
    try:
        found, content = await larges.find(organization, name)
    except NotFound as error:
        raise NotFound(f"There is no thumbnail of {name}.") from error

    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        return (await store.get(content.info.key, start, stop)).chunks

    etag = _etag(found.marker, "1280", found.made_at)
    caching = _caching(found.checksum, version)
    return Stored(content.info.size, TYPE, etag, read, None, caching)


def _caching(checksum: str | None, version: str | None) -> str:
    return FOR_EVER if checksum is not None and version == checksum else ASK_AGAIN


def _etag(marker: str, size: str, made_at: int | None) -> str:
    return hashlib.sha256(f"{marker}/{size}/{made_at}".encode()).hexdigest()[:32]


async def _piece(data: bytes) -> AsyncIterator[bytes]:
    yield data
