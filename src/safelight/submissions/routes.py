"""Submissions for those who make them, and what everybody may see of them."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from starlette.responses import JSONResponse, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import (
    AsMember,
    AsViewer,
    MemberById,
    ViewerById,
    allow_by_id,
    open_to_everyone,
)
from safelight.errors import NotFound
from safelight.http.content import Stored, respond
from safelight.http.described import Described, HistoryItem, PageOf, bytes_of
from safelight.http.frame import ClockDep, DatabaseDep, ReadsDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.objects.store import ObjectStore
from safelight.submissions import repo
from safelight.submissions.answers import ReceivedAnswer, SubmissionAnswer
from safelight.submissions.endings import Endings
from safelight.submissions.lifecycle import Submission, SubmissionState, rendition_key
from safelight.submissions.recovery.decide import Tempo, staleness
from safelight.submissions.recovery.records import SubmissionView
from safelight.submissions.submit import SubmissionRequest, Submit

router = APIRouter(tags=["submissions"], route_class=Described)

ApproverById = Annotated[Caller, allow_by_id(Role.APPROVER)]
TempoDep = Annotated[Tempo, provided(Tempo)]
StoreDep = Annotated[ObjectStore, provided(ObjectStore)]

_ID = re.compile(r"sub_[0-9a-z]{1,40}")
PUBLIC_CACHE = "public, max-age=300"
PRIVATE_CACHE = "private, no-store"


class SourceBody(BaseModel):
    """Exactly one of them."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"upload": "harbour.jpg"}]}
    )

    upload: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    artifact: Annotated[str, Field(min_length=1, max_length=64)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "SourceBody":
        if (self.upload is None) == (self.artifact is None):
            raise ValueError('write {"upload": name} or {"artifact": id}')
        return self

    def named(self) -> tuple[str, str]:
        return ("upload", self.upload) if self.upload else ("artifact", self.artifact or "")


class SubmitBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"source": {"upload": "harbour.jpg"}, "title": "Harbour at dawn"}]
        },
    )

    source: SourceBody
    title: (
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
        | None
    ) = None


@router.post(
    "/api/v1/submissions",
    status_code=202,
    summary="Submit an image for publication",
    response_model=ReceivedAnswer,
)
async def submit(
    body: SubmitBody, access: AsMember, submissions: Annotated[Submit, provided(Submit)]
) -> Response:
    """What is checked and published is the image as it is now, whatever happens to it later."""
    kind, source_id = body.source.named()
    actor = access.caller.as_actor()
    wanted = SubmissionRequest(access.organization, kind, source_id, body.title, actor)
    submission = await submissions.submit(wanted)
    return JSONResponse({"id": submission.id, "state": submission.state}, 202)


@router.get(
    "/api/v1/submissions",
    summary="Submissions, newest first",
    response_model=PageOf[SubmissionAnswer],
)
async def submissions(
    access: AsViewer,
    db: DatabaseDep,
    clock: ClockDep,
    tempo: TempoDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    state: Annotated[SubmissionState | None, Query(description="Only in this state.")] = None,
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"submissions:{access.organization}:{state}"
    before = cursors.read(purpose, cursor)
    now = clock.now_ms()
    rows = await repo.page(
        db, access.organization, state, (before[0], before[1]) if before else None, limit, now
    )
    return page(
        rows,
        limit,
        lambda view: show(view, now, tempo),
        lambda view: cursors.make(purpose, [view.submission.created_at, view.submission.id]),
    )


@router.get(
    "/api/v1/submissions/{submission_id}", summary="One submission", response_model=SubmissionAnswer
)
async def submission(
    submission_id: str, caller: ViewerById, db: DatabaseDep, clock: ClockDep, tempo: TempoDep
) -> dict[str, Any]:
    return await _shown(db, submission_id, caller, clock.now_ms(), tempo)


@router.get(
    "/api/v1/submissions/{submission_id}/history",
    summary="How it came to its state",
    response_model=PageOf[HistoryItem],
)
async def history(
    submission_id: str,
    caller: ViewerById,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
) -> dict[str, Any]:
    found = await _visible(db, caller, submission_id, Role.VIEWER)
    limit, cursor = wanted
    after = (cursors.read(found.subject, cursor) or [0])[0]
    rows = await activity.of_subject(
        db, found.organization, found.subject, after=after, limit=limit
    )
    return page(
        rows, limit, lambda row: row.as_history(), lambda r: cursors.make(found.subject, [r.seq])
    )


@router.post(
    "/api/v1/submissions/{submission_id}/withdraw",
    summary="Take it back",
    response_model=SubmissionAnswer,
)
async def withdraw(
    submission_id: str,
    caller: MemberById,
    db: DatabaseDep,
    clock: ClockDep,
    tempo: TempoDep,
    endings: Annotated[Endings, provided(Endings)],
) -> dict[str, Any]:
    """A published one is not shown any more, one that is on its way is rejected. Again changes
    nothing."""
    found = await _visible(db, caller, submission_id, Role.MEMBER)
    await endings.withdraw(found, caller.as_actor())
    return await _shown(db, submission_id, caller, clock.now_ms(), tempo)


@router.get(
    "/api/v1/submissions/{submission_id}/preview",
    summary="The picture a person has to decide about",
    responses=bytes_of("image/*", says="The picture that is judged."),
)
async def preview(
    submission_id: str, request: Request, caller: ApproverById, db: DatabaseDep, store: StoreDep
) -> Response:
    """For approvers, while it awaits their decision; exactly what would be published."""
    found = await _visible(db, caller, submission_id, Role.APPROVER)
    if found.state is not SubmissionState.AWAITING_APPROVAL:
        raise NotFound("There is nothing to decide about this submission.")
    return await _rendition(request, found, store, PRIVATE_CACHE)


@router.get(
    "/public/{submission_id}",
    dependencies=[open_to_everyone],
    summary="A published picture",
    responses=bytes_of("image/*", says="The published picture."),
)
@router.head("/public/{submission_id}", dependencies=[open_to_everyone], include_in_schema=False)
async def public(
    submission_id: str, request: Request, db: DatabaseDep, store: StoreDep
) -> Response:
    found = await repo.find(db, submission_id) if _ID.fullmatch(submission_id) else None
    if found is None or found.state is not SubmissionState.PUBLISHED:
        raise NotFound
    response = await _rendition(request, found, store, PUBLIC_CACHE)
    response.headers["cross-origin-resource-policy"] = "cross-origin"
    return response


async def _rendition(
    request: Request, found: Submission, store: ObjectStore, cache: str
) -> Response:
    key = rendition_key(found.id)

    async def read(start: int, stop: int) -> AsyncIterator[bytes]:
        return (await store.get(key, start, stop)).chunks

    stored = Stored(
        size=found.rendition_size or 0,
        content_type=found.rendition_type or "application/octet-stream",
        etag=found.rendition_etag or "",
        open=read,
        cache_control=cache,
    )
    response = await respond(request, stored)
    response.headers["x-content-type-options"] = "nosniff"
    return response


async def _shown(
    db: Database, submission_id: str, caller: Caller, now: int, tempo: Tempo
) -> dict[str, Any]:
    view = await repo.view(db, submission_id, now)
    if view is None:
        raise NotFound
    authorize(caller, view.submission.organization, Role.VIEWER)
    return show(view, now, tempo)


async def _visible(db: Database, caller: Caller, submission_id: str, role: Role) -> Submission:
    found = await repo.find(db, submission_id)
    if found is None:
        raise NotFound
    authorize(caller, found.organization, role)
    return found


def show(view: SubmissionView, now: int, tempo: Tempo) -> dict[str, Any]:
    """How submissions look on the wire."""
    submission = view.submission
    body: dict[str, Any] = {
        "id": submission.id,
        "state": submission.state,
        "source": {submission.source_kind: submission.source_id},
        "title": submission.title,
        "findings": submission.findings,
        "approvalId": submission.approval_id,
        "createdAt": iso(submission.created_at),
        "updatedAt": iso(submission.updated_at),
    }
    if submission.rejection:
        body["rejection"] = submission.rejection
    if stale := staleness(view.progress, now, tempo):
        body["staleness"] = stale.to_json()
    return body
