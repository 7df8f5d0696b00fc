"""Requests for approval: those that wait first, what was decided below."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsApprover, AsViewer
from safelight.approvals import repo
from safelight.approvals.lifecycle import Approval, ApprovalStatus
from safelight.approvals.workflow import Approvals
from safelight.errors import InvalidRequest, SafelightError
from safelight.http.frame import provided, services
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.states import Phase
from safelight.submissions.lifecycle import SUBJECT
from safelight.web.rendering import Context, Pages, PagesDep

router = APIRouter(include_in_schema=False)

PENDING, DECIDED = 50, 30
LONGEST_REASON = 1000

ApprovalsDep = Annotated[Approvals, provided(Approvals)]


@dataclass(frozen=True, slots=True)
class ApprovalItem:
    approval: Approval

    @property
    def submission_id(self) -> str | None:
        subject = self.approval.subject
        return subject.id if subject and subject.type == SUBJECT else None


@dataclass(frozen=True, kw_only=True)
class WorkflowPage(Context):
    template: ClassVar[str] = "workflow.html"
    title: str = "Approvals"
    organization: str
    may_decide: bool
    pending: list[ApprovalItem]
    more_pending: bool
    decided: list[ApprovalItem]
    problem: str | None = None
    longest_reason: ClassVar[int] = LONGEST_REASON

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/workflow"


@router.get("/app/{org}/workflow")
async def workflow_page(request: Request, access: AsViewer, pages: PagesDep) -> Response:
    return await pages.render(request, await _page(request, access))


@router.post("/app/{org}/workflow/{approval_id}/approve")
async def approve_by_form(
    approval_id: str, request: Request, access: AsApprover, pages: PagesDep, workflow: ApprovalsDep
) -> Response:
    decision = workflow.approve_request(
        access.organization, approval_id, access.caller.as_actor(), None
    )
    return await _decided(request, access, pages, decision)


@router.post("/app/{org}/workflow/{approval_id}/reject")
async def reject_by_form(
    approval_id: str,
    request: Request,
    access: AsApprover,
    pages: PagesDep,
    workflow: ApprovalsDep,
    reason: Annotated[str, Form()] = "",
) -> Response:
    decision = _reject(workflow, access, approval_id, reason.strip())
    return await _decided(request, access, pages, decision)


async def _reject(workflow: Approvals, access: Access, approval_id: str, reason: str) -> Approval:
    if not reason:
        raise InvalidRequest("Say why it is rejected; the submitter reads it.")
    if len(reason) > LONGEST_REASON or "\0" in reason:
        raise InvalidRequest(f"A reason is text of at most {LONGEST_REASON} characters.")
    actor = access.caller.as_actor()
    return await workflow.reject_request(access.organization, approval_id, actor, reason)


async def _decided(
    request: Request, access: Access, pages: Pages, decision: Awaitable[Approval]
) -> Response:
    """Back to the page, or the page with the words of what is in the way."""
    try:
        await decision
    except SafelightError as error:
        page = await _page(request, access, error.message)
        return await pages.render(request, page, error.status)
    return RedirectResponse(f"/app/{access.organization}/workflow", 303)


async def _page(request: Request, access: Access, problem: str | None = None) -> WorkflowPage:
    db, organization = services(request).get(Database), access.organization
    # Before the requests are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(db, organization)
    pending = await repo.page(db, organization, ApprovalStatus.PENDING, None, PENDING)
    return WorkflowPage(
        organization=organization,
        may_decide=access.caller.organizations[organization] >= Role.APPROVER,
        pending=_items(pending[:PENDING]),
        more_pending=len(pending) > PENDING,
        decided=_items(await _decided_of_late(db, organization)),
        after=newest,
        problem=problem,
    )


async def _decided_of_late(db: Database, organization: str) -> list[Approval]:
    found: list[Approval] = []
    for status in ApprovalStatus.in_phase(Phase.OVER):
        found += await repo.page(db, organization, status, None, DECIDED)
    found.sort(key=lambda approval: approval.decided_at or 0, reverse=True)
    return found[:DECIDED]


def _items(approvals: list[Approval]) -> list[ApprovalItem]:
    return [ApprovalItem(approval) for approval in approvals]
