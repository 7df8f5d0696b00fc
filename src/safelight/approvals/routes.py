"""Requests for approval: ask, list, decide."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from safelight.accounts.guard import AsApprover, AsMember, AsViewer
from safelight.approvals import repo
from safelight.approvals.answers import ApprovalAnswer
from safelight.approvals.lifecycle import Approval, ApprovalStatus
from safelight.approvals.workflow import Approvals, Question, UnknownApproval
from safelight.errors import InvalidRequest
from safelight.http.described import Described, PageOf
from safelight.http.frame import DatabaseDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.infra.injected import iso

router = APIRouter(
    tags=["approvals"], prefix="/api/organizations/{org}/approvals", route_class=Described
)

ApprovalsDep = Annotated[Approvals, provided(Approvals)]
Text = Annotated[str, StringConstraints(strip_whitespace=True)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RequestBody(_Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"title": "Harbour at dawn", "description": "For the spring catalogue."}]
        }
    )

    title: Annotated[Text, Field(min_length=1, max_length=200)]
    description: Annotated[Text, Field(max_length=4000)] = ""


class ReasonBody(_Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "The licence is missing."}]}
    )

    reason: Annotated[Text, Field(max_length=1000)] | None = None


@router.post("", status_code=201, summary="Ask for approval", response_model=ApprovalAnswer)
async def request_approval(
    body: RequestBody, access: AsMember, workflow: ApprovalsDep
) -> dict[str, Any]:
    asked = Question(access.organization, body.title, body.description, access.caller.as_actor())
    return show(await workflow.request_approval(asked))


@router.get(
    "", summary="Requests for approval, newest first", response_model=PageOf[ApprovalAnswer]
)
async def list_approval_requests(
    access: AsViewer,
    db: DatabaseDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    status: Annotated[
        Literal["pending", "approved", "rejected", "all"], Query(description="Only such.")
    ] = "pending",
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"approvals:{access.organization}:{status}"
    before = cursors.read(purpose, cursor)
    rows = await repo.page(
        db,
        access.organization,
        None if status == "all" else ApprovalStatus(status),
        (before[0], before[1]) if before else None,
        limit,
    )
    return page(rows, limit, show, lambda row: cursors.make(purpose, [row.created_at, row.id]))


@router.get("/{approval_id}", summary="One request", response_model=ApprovalAnswer)
async def approval_request(approval_id: str, access: AsViewer, db: DatabaseDep) -> dict[str, Any]:
    found = await repo.find(db, access.organization, approval_id)
    if found is None:
        raise UnknownApproval
    return show(found)


@router.post("/{approval_id}/approve", summary="Approve", response_model=ApprovalAnswer)
async def approve_request(
    approval_id: str, access: AsApprover, workflow: ApprovalsDep, body: ReasonBody | None = None
) -> dict[str, Any]:
    """Again changes nothing. A request that was rejected, or expired, is `ALREADY_DECIDED`."""
    reason = body.reason if body else None
    actor = access.caller.as_actor()
    approval = await workflow.approve_request(
        access.organization, approval_id, actor, reason or None
    )
    return show(approval)


@router.post(
    "/{approval_id}/reject", summary="Reject, with a reason", response_model=ApprovalAnswer
)
async def reject_request(
    approval_id: str, access: AsApprover, workflow: ApprovalsDep, body: ReasonBody | None = None
) -> dict[str, Any]:
    """Again changes nothing. A request that was approved is `ALREADY_DECIDED`."""
    if body is None or not body.reason:
        raise InvalidRequest("reason: say why it is rejected.")
    actor = access.caller.as_actor()
    approval = await workflow.reject_request(access.organization, approval_id, actor, body.reason)
    return show(approval)


def show(approval: Approval) -> dict[str, Any]:
    subject = approval.subject
    return {
        "id": approval.id,
        "status": approval.status,
        "title": approval.title,
        "description": approval.description,
        "subject": {"type": subject.type, "id": subject.id} if subject else None,
        "requestedBy": approval.requested_by,
        "createdAt": iso(approval.created_at),
        "expiresAt": iso(approval.expires_at),
        "decidedBy": approval.decided_by,
        "decidedAt": None if approval.decided_at is None else iso(approval.decided_at),
        "reason": approval.reason,
    }
