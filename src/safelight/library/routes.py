"""The organization's images: list, one, its bytes, its story, and deleting it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from safelight.accounts.guard import Access, AsMember, AsViewer
from safelight.errors import InvalidRequest, NotFound
from safelight.http.content import disposition, elsewhere, respond_named, soon
from safelight.http.described import Described, EmptyAnswer, HistoryItem, PageOf, bytes_of
from safelight.http.frame import DatabaseDep, ReadsDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.library import repo
from safelight.library.answers import EntryAnswer, OneEntryAnswer
from safelight.library.deletion import UploadDeletion
from safelight.library.entry import Entry, LibraryFilter, RunStatus, entry_status
from safelight.library.lists import repo as lists
from safelight.library.original import ServedOriginal
from safelight.objects.downloads import Downloads
from safelight.objects.keys import InvalidKey, InvalidName, object_key, prefix_query
from safelight.objects.store import NoSuchObject, ObjectStore

router = APIRouter(
    tags=["library"], prefix="/api/organizations/{org}/uploads", route_class=Described
)

ShownStatus = Literal["pending", "running", "done", "failed"]


@router.get("", summary="The library, newest first", response_model=PageOf[EntryAnswer])
async def uploads(
    access: AsViewer,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    label: Annotated[str | None, Query(max_length=200, description="Exactly this label.")] = None,
    q: Annotated[str | None, Query(max_length=500, description="Words of name or label.")] = None,
    status: Annotated[ShownStatus | None, Query(description="Classification status.")] = None,
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"uploads:{access.organization}:{label}:{q}:{status}"
    before = cursors.read(purpose, cursor)
    filters = LibraryFilter(label, query_of(q), entry_status(status))
    rows = await lists.page(
        db, access.organization, filters, (before[0], before[1]) if before else None, limit
    )
    return page(rows, limit, show, lambda row: cursors.make(purpose, [row.event_time, row.name]))


@router.get("/{name}", summary="One entry", response_model=OneEntryAnswer)
async def upload(name: str, access: AsViewer, db: DatabaseDep) -> dict[str, Any]:
    found = await repo.find(db, access.organization, name)
    if found is None:
        raise NotFound(f"There is no image called {name}.")
    return show(found) | {"labels": list(found.labels)}


@router.get(
    "/{name}/content",
    summary="The original's bytes",
    responses=bytes_of("image/*", says="The original, as it was uploaded."),
)
@router.head("/{name}/content", include_in_schema=False)
async def content(
    name: str,
    request: Request,
    access: AsViewer,
    db: DatabaseDep,
    store: Annotated[ObjectStore, provided(ObjectStore)],
    downloads: Annotated[Downloads, provided(Downloads)],
) -> Response:
    """The library's, not all that somebody may have put beside it."""
    key = _key(access.organization, name)
    if not await repo.shows(db, access.organization, name):
        raise NoSuchObject
    original = ServedOriginal(store, key, name)
    async with soon():
        if downloads.sends(request.method):
            stored = await original.look()
            address = downloads.address(key, stored.content_type, disposition(name))
            return elsewhere(request, stored, address)
        return await respond_named(request, original)


@router.get(
    "/{name}/history", summary="Why this entry is as it is", response_model=PageOf[HistoryItem]
)
async def history(
    name: str, access: AsViewer, db: ReadsDep, cursors: CursorsDep, wanted: PageRequest
) -> dict[str, Any]:
    limit, cursor = wanted
    organization, subject = access.organization, f"upload:{name}"
    after = (cursors.read(subject, cursor) or [0])[0]
    rows = await activity.of_subject(db, organization, subject, after=after, limit=limit)
    if not rows and not await repo.was_ever_seen(db, organization, name):
        raise NotFound(f"There never was an image called {name}.")
    return page(rows, limit, lambda row: row.as_history(), lambda r: cursors.make(subject, [r.seq]))


@router.delete("/{name}", status_code=202, summary="Delete for good", response_model=EmptyAnswer)
async def delete(
    name: str,
    access: AsMember,
    db: DatabaseDep,
    deletion: Annotated[UploadDeletion, provided(UploadDeletion)],
) -> Response:
    """The object goes now, and so does what is still on its way to it; the entry follows."""
    await request_deletion(name, access, db, deletion)
    return JSONResponse({}, 202)


async def request_deletion(
    name: str, access: Access, db: Database, deletion: UploadDeletion
) -> None:
    """For the page's form as well."""
    _key(access.organization, name)
    if not await repo.was_ever_seen(db, access.organization, name):
        raise NotFound(f"There is no image called {name}.")
    await deletion.request(access.organization, name, access.caller.as_actor())


def show(row: Entry) -> dict[str, Any]:
    return {
        "name": row.name,
        "eventTime": iso(row.event_time),
        "idempotencyKey": row.idempotency_key,
        "classificationLabel": row.classification_label,
        "classificationScore": row.classification_score,
        "classifiedAt": None if row.classified_at is None else iso(row.classified_at),
        "classificationStatus": row.classification_status,
        "classificationModel": row.classification_model,
        "imageId": row.image_id,
        "mimeType": row.mime_type,
        "width": row.width,
        "height": row.height,
        "sizeBytes": row.size_bytes,
        "checksum": row.checksum,
        "dominantColor": row.dominant_color,
        **_trouble(row),
    }


def _trouble(row: Entry) -> dict[str, Any]:
    """What an entry without a label waits for, or why it will have none."""
    if row.classification_status is RunStatus.FAILED:
        return {"failure": row.error}
    if row.next_attempt_at is None:
        return {}
    return {"nextAttemptAt": iso(row.next_attempt_at), "lastError": row.error}


def _key(organization: str, name: str) -> str:
    try:
        return object_key(organization, name)
    except (InvalidName, InvalidKey) as error:
        raise NotFound from error  # no object can have such a name


def query_of(text: str | None) -> str | None:
    if text is None:
        return None
    query = prefix_query(text)
    if query is None:
        raise InvalidRequest("q: give at least one word to look for.")
    return query
