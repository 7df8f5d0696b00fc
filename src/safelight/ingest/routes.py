"""POST /api/upload and the records it makes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import Access, Allow, AsViewer, ViewerById
from safelight.errors import (
    InvalidRequest,
    NotFound,
    SafelightError,
    Unavailable,
    UnknownError,
)
from safelight.http.described import Described, HistoryItem, PageOf
from safelight.http.errors import as_safelight_error
from safelight.http.frame import DatabaseDep, ReadsDep, provided, services
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.http.short_road import raise_again
from safelight.infra import activity
from safelight.infra.db import AWAY, Database
from safelight.infra.injected import iso
from safelight.ingest import repo
from safelight.ingest.accept import Ingest, OnConflict, UploadRequest
from safelight.ingest.answers import ImageAnswer, UploadAnswer
from safelight.ingest.contract import ANSWER, DatabaseError, StreamError
from safelight.ingest.lifecycle import Image, ImageStatus, OffloadWait
from safelight.ingest.receive import check_declared_length
from safelight.objects.keys import InvalidName, check_name


class ServerStopping(UnknownError):
    """The server is stopping. Nothing was kept; please try again."""


class UploadRoute(Described):
    """Counts and tells of every upload that is refused, also where it never reaches the handler:
    without a sign-in, without the role, elsewhere, with a parameter that cannot be read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                raise_again(request)
                return await handle(request)
            except Exception as error:
                _account(request, error)
                raise

        return told


def _account(request: Request, error: Exception) -> None:
    known: SafelightError = UnknownError()
    if isinstance(error, (SafelightError, RequestValidationError, *AWAY)):
        known = as_safelight_error(request, error)
    if isinstance(known, Unavailable):
        known = DatabaseError()
    services(request).get(Ingest).account_failure(known, error.__cause__ or error)


router = APIRouter(tags=["ingest"], route_class=Described)
uploading = APIRouter(route_class=UploadRoute)
_who_may_upload = Allow(Role.MEMBER)


@uploading.post(
    "/api/upload",
    status_code=201,
    summary="Upload one image",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {"file": {"type": "string", "format": "binary"}},
                    }
                }
            },
        }
    },
    response_model=UploadAnswer,
)
async def upload(
    request: Request,
    access: Annotated[Access, Depends(_who_may_upload)],
    ingest: Annotated[Ingest, provided(Ingest)],
    name: Annotated[str | None, Query(description="Library name; default: the file's.")] = None,
    on_conflict: Annotated[OnConflict, Query(alias="onConflict")] = OnConflict.REPLACE,
    x_content_sha256: Annotated[str | None, Header(description="Compared when sent.")] = None,
) -> Response:
    image = await receive(request, access, ingest, name, on_conflict, x_content_sha256)
    values = image.id, image.status, image.checksum, image.size_bytes, iso(image.created_at)
    return JSONResponse(dict(zip(ANSWER, values, strict=True)), 201)


async def upload_plainly(request: Request) -> Response:
    """What the framework makes of an upload without a query, for the short road."""
    access = await _who_may_upload(request)
    checksum = request.headers.get("x-content-sha256")
    return await upload(request, access, services(request).get(Ingest), x_content_sha256=checksum)


async def receive(
    request: Request,
    access: Access,
    ingest: Ingest,
    name: str | None = None,
    on_conflict: OnConflict = OnConflict.REPLACE,
    checksum: str | None = None,
) -> Image:
    """For the page's form as well. Whatever happens, whoever sends is answered in our words."""
    try:
        _check_name(name)
        check_declared_length(_content_length(request), ingest.limits)
        wanted = UploadRequest(
            organization=access.organization,
            content_type=request.headers.get("content-type", ""),
            actor=access.caller.as_actor(),
            name=name,
            on_conflict=on_conflict,
            checksum=checksum,
        )
        async with ingest.quotas.upload(wanted.organization):
            try:
                return await ingest.accept(wanted, request.stream())
            except ClientDisconnect as error:
                raise StreamError("The upload broke off before its end.") from error
    except asyncio.CancelledError as error:
        # The server stops and has waited long enough. Whoever sends is told, and answered even so.
        raise ServerStopping from error


router.include_router(uploading)


@router.get(
    "/api/organizations/{org}/images",
    summary="Images by what became of them",
    response_model=PageOf[ImageAnswer],
)
async def images(
    access: AsViewer,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    status: Annotated[ImageStatus | None, Query(description="Only those in this state.")] = None,
) -> dict[str, Any]:
    """Newest first. An image that could not be stored (`FAILED`) says why in `failure`; one whose
    storage has to wait says until when, and for what."""
    limit, cursor = wanted
    purpose = f"images:{access.organization}:{status}"
    before = cursors.read(purpose, cursor)
    rows = await repo.page(
        db, access.organization, status, (before[0], before[1]) if before else None, limit
    )
    failures = await repo.failures(db, access.organization, rows)
    waits = await repo.waits(db, rows)
    return page(
        rows,
        limit,
        lambda row: _shown(row, failures.get(row.id), waits.get(row.id)),
        lambda row: cursors.make(purpose, [row.created_at, row.id]),
    )


@router.get("/api/images/{image_id}", summary="One image's record", response_model=ImageAnswer)
async def show(
    image_id: str,
    caller: ViewerById,
    db: DatabaseDep,
) -> dict[str, Any]:
    image = await _visible(db, caller, image_id)
    failures = await repo.failures(db, image.organization, [image])
    waits = await repo.waits(db, [image])
    return _shown(image, failures.get(image.id), waits.get(image.id))


def _shown(
    image: Image, failure: dict[str, Any] | None, wait: OffloadWait | None
) -> dict[str, Any]:
    body = {
        "id": image.id,
        "imageId": image.id,
        "organizationId": image.organization,
        "name": image.name,
        "idempotencyKey": image.idempotency_key,
        "status": image.status,
        "checksum": image.checksum,
        "mimeType": image.mime_type,
        "width": image.width,
        "height": image.height,
        "sizeBytes": image.size_bytes,
        "createdAt": iso(image.created_at),
        "updatedAt": iso(image.updated_at),
    }
    if image.status is ImageStatus.FAILED:
        body["failure"] = failure
    if wait:
        body |= {"nextAttemptAt": iso(wait.next_at), "lastError": wait.error}
    return body


@router.get(
    "/api/images/{image_id}/history",
    summary="How one image came to its state",
    response_model=PageOf[HistoryItem],
)
async def history(
    image_id: str,
    caller: ViewerById,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
) -> dict[str, Any]:
    image = await _visible(db, caller, image_id)
    limit, cursor = wanted
    subject = f"image:{image.id}"
    after = (cursors.read(subject, cursor) or [0])[0]
    rows = await activity.of_subject(db, image.organization, subject, after=after, limit=limit)
    return page(rows, limit, lambda row: row.as_history(), lambda r: cursors.make(subject, [r.seq]))


async def _visible(db: Database, caller: Caller, image_id: str) -> Image:
    image = await repo.find(db, image_id)
    if image is None:
        raise NotFound
    authorize(caller, image.organization, Role.VIEWER)
    return image


def _check_name(name: str | None) -> None:
    if name is None:
        return
    try:
        check_name(name)
    except InvalidName as error:
        raise InvalidRequest(f"name: {error}") from error


def _content_length(request: Request) -> int | None:
    value = request.headers.get("content-length", "")
    return int(value) if value.isdigit() else None
