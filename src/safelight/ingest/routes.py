"""POST /api/upload and the record it makes."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import Access, AsMember, ViewerById
from safelight.errors import InvalidRequest, NotFound, SafelightError, UnknownError
from safelight.http.frame import DatabaseDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.ingest import repo
from safelight.ingest.accept import Ingest, OnConflict, UploadRequest
from safelight.ingest.contract import ANSWER, StreamError
from safelight.ingest.lifecycle import Image, ImageStatus
from safelight.ingest.receive import check_declared_length
from safelight.objects.keys import InvalidName, check_name

router = APIRouter(tags=["ingest"])


@router.post(
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
)
async def upload(
    request: Request,
    access: AsMember,
    ingest: Annotated[Ingest, provided(Ingest)],
    name: Annotated[str | None, Query(description="Library name; default: the file's.")] = None,
    on_conflict: Annotated[OnConflict, Query(alias="onConflict")] = OnConflict.REPLACE,
    x_content_sha256: Annotated[str | None, Header(description="Compared when sent.")] = None,
) -> Response:
    image = await receive(request, access, ingest, name, on_conflict, x_content_sha256)
    values = image.id, image.status, image.checksum, image.size_bytes, iso(image.created_at)
    return JSONResponse(dict(zip(ANSWER, values, strict=True)), 201)


async def receive(
    request: Request,
    access: Access,
    ingest: Ingest,
    name: str | None = None,
    on_conflict: OnConflict = OnConflict.REPLACE,
    checksum: str | None = None,
) -> Image:
    """For the page's form as well; every failure is counted."""
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
        return await ingest.accept(wanted, request.stream())
    except asyncio.CancelledError as error:
        # The server stops and has waited long enough. Whoever sends is told, and answered even so.
        stopping = UnknownError("The server is stopping. Nothing was kept; please try again.")
        ingest.account_failure(stopping, error)
        raise stopping from error
    except ClientDisconnect as error:
        broken = StreamError("The upload broke off before its end.")
        ingest.account_failure(broken, error)
        raise broken from error
    except SafelightError as error:
        ingest.account_failure(error, error.__cause__)
        raise
    except Exception as error:
        ingest.account_failure(UnknownError(), error)
        raise


@router.get("/api/images/{image_id}", summary="One image's record")
async def show(
    image_id: str,
    caller: ViewerById,
    db: DatabaseDep,
) -> dict[str, Any]:
    image = await _visible(db, caller, image_id)
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
        body["failure"] = await repo.failure(db, image.organization, image.id)
    return body


@router.get("/api/images/{image_id}/history", summary="How one image came to its state")
async def history(
    image_id: str,
    caller: ViewerById,
    db: DatabaseDep,
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
