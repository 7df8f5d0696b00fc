"""The artifacts of an organization: list, one, its bytes, its tags, and deleting it."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import AsViewer, MemberById, ViewerById
from safelight.errors import NotFound
from safelight.generations.answers import ArtifactAnswer
from safelight.generations.artifacts import repo
from safelight.generations.artifacts.deletion import ArtifactDeletion
from safelight.generations.artifacts.thumbnails.thumbnails import TYPE, ArtifactThumbnails
from safelight.generations.lifecycle import Artifact, key_of
from safelight.generations.media import file_name
from safelight.generations.request import clean_tag
from safelight.generations.routes import TaggingDep
from safelight.generations.routes import visible as visible_generation
from safelight.generations.show import show_artifact
from safelight.http.content import (
    ASK_AGAIN,
    FOR_EVER,
    Stored,
    disposition,
    elsewhere,
    respond,
    soon,
)
from safelight.http.described import Described, PageOf, bytes_of
from safelight.http.frame import DatabaseDep, ReadsDep, provided
from safelight.http.paging import Cursors, CursorsDep, PageRequest, page
from safelight.infra.db import Database
from safelight.objects.downloads import Downloads
from safelight.objects.store import ObjectStore

router = APIRouter(tags=["artifacts"], route_class=Described)


@router.get("/artifacts", summary="Artifacts, newest first", response_model=PageOf[ArtifactAnswer])
async def artifacts(
    access: AsViewer,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    tag: Annotated[str | None, Query(description="Its own tag, or its generation's.")] = None,
    generation_id: Annotated[str | None, Query(alias="generationId")] = None,
) -> dict[str, Any]:
    named = None if tag is None else clean_tag(tag)
    return await _page(db, cursors, wanted, access.organization, generation_id, named)


@router.get(
    "/generations/{generation_id}/artifacts",
    summary="What has come of a generation",
    response_model=PageOf[ArtifactAnswer],
)
async def artifacts_of(
    generation_id: str,
    caller: ViewerById,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
) -> dict[str, Any]:
    """They appear one by one while the generation is under way."""
    organization = await visible_generation(db, caller, generation_id, Role.VIEWER)
    return await _page(db, cursors, wanted, organization, generation_id, None)


@router.get(
    "/artifacts/{artifact_id}", summary="One artifact's record", response_model=ArtifactAnswer
)
async def artifact(artifact_id: str, caller: ViewerById, db: DatabaseDep) -> dict[str, Any]:
    return show_artifact(await _visible(db, caller, artifact_id, Role.VIEWER))


@router.get(
    "/artifacts/{artifact_id}/content",
    summary="Its bytes",
    responses=bytes_of("image/*", "video/*", says="The artifact's bytes."),
)
@router.head("/artifacts/{artifact_id}/content", include_in_schema=False)
async def content(
    artifact_id: str,
    request: Request,
    caller: ViewerById,
    db: DatabaseDep,
    store: Annotated[ObjectStore, provided(ObjectStore)],
    downloads: Annotated[Downloads, provided(Downloads)],
) -> Response:
    found = await _visible(db, caller, artifact_id, Role.VIEWER)
    key = key_of(found.id)

    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        return (await store.get(key, start, stop)).chunks

    name = file_name(found.id, found.content_type)
    stored = Stored(found.size_bytes, found.content_type, found.checksum, read, name)
    if downloads.sends(request.method):
        address = downloads.address(key, stored.content_type, disposition(name))
        return elsewhere(request, stored, address)
    return await respond(request, stored)


@router.get(
    "/artifacts/{artifact_id}/thumbnail",
    summary="A small picture of it",
    responses=bytes_of(TYPE, says="Upright, without metadata, never enlarged."),
)
@router.head("/artifacts/{artifact_id}/thumbnail", include_in_schema=False)
async def thumbnail(
    artifact_id: str,
    request: Request,
    caller: ViewerById,
    db: DatabaseDep,
    thumbnails: Annotated[ArtifactThumbnails, provided(ArtifactThumbnails)],
    size: Annotated[
        Literal["320"], Query(description="The most pixels of its longer side.")
    ] = "320",
    v: Annotated[
        str | None, Query(max_length=64, description="Its `checksum`: cached for ever.")
    ] = None,
) -> Response:
    """Of a still picture, made when somebody first asks; a video has none."""
    found = await _visible(db, caller, artifact_id, Role.VIEWER)
    async with soon():
        try:
            data = await thumbnails.find(found)
        except NotFound as error:
            raise NotFound("There is no small picture of this artifact.") from error

    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        return _piece(data[start:stop])

    caching = FOR_EVER if v == found.checksum else ASK_AGAIN
    etag = f"{found.checksum[:32]}-{size}"
    return await respond(request, Stored(len(data), TYPE, etag, read, None, caching))


@router.put("/artifacts/{artifact_id}/tags/{tag:path}", status_code=204, summary="Put a tag")
async def put_tag(
    artifact_id: str, tag: str, caller: MemberById, db: DatabaseDep, tagging: TaggingDep
) -> None:
    found = await _visible(db, caller, artifact_id, Role.MEMBER)
    await tagging.put_on_artifact(found.organization, artifact_id, clean_tag(tag))


@router.delete("/artifacts/{artifact_id}/tags/{tag:path}", status_code=204, summary="Drop a tag")
async def drop_tag(
    artifact_id: str, tag: str, caller: MemberById, db: DatabaseDep, tagging: TaggingDep
) -> None:
    found = await _visible(db, caller, artifact_id, Role.MEMBER)
    await tagging.remove_from_artifact(found.organization, artifact_id, clean_tag(tag))


@router.delete("/artifacts/{artifact_id}", status_code=204, summary="Delete for good")
async def delete(
    artifact_id: str,
    caller: MemberById,
    db: DatabaseDep,
    deletion: Annotated[ArtifactDeletion, provided(ArtifactDeletion)],
) -> None:
    found = await repo.find(db, artifact_id)
    organization = found.organization if found else await repo.deleted_from(db, artifact_id)
    if organization is None:
        raise NotFound
    authorize(caller, organization, Role.MEMBER)
    if found is not None:
        await deletion.delete(found, caller.as_actor())


async def _visible(db: Database, caller: Caller, artifact_id: str, role: Role) -> Artifact:
    found = await repo.find(db, artifact_id)
    if found is None:
        raise NotFound
    authorize(caller, found.organization, role)
    return found


async def _page(
    db: Database,
    cursors: Cursors,
    wanted: tuple[int, str | None],
    organization: str,
    generation_id: str | None,
    tag: str | None,
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"artifacts:{organization}:{generation_id}:{tag}"
    key = cursors.read(purpose, cursor)
    before = (key[0], key[1]) if key else None
    rows = await repo.page(db, organization, generation_id, tag, before, limit)
    return page(
        rows, limit, show_artifact, lambda row: cursors.make(purpose, [row.created_at, row.id])
    )


async def _piece(data: bytes) -> AsyncIterator[bytes]:
    yield data
