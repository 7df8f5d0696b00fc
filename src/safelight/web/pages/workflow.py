"""Requests for approval: one at a time with its picture, or as a list to decide many at once; and
what was decided, by whom and why."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsApprover, AsViewer
from safelight.approvals import repo
from safelight.approvals.lifecycle import Approval, ApprovalStatus
from safelight.approvals.workflow import AlreadyDecided, Approvals, UnknownApproval
from safelight.errors import Forbidden, InvalidRequest, SafelightError
from safelight.http.frame import provided, services
from safelight.http.paging import LARGEST, Cursors
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.settings import Settings
from safelight.submissions import repo as submissions
from safelight.submissions.lifecycle import SUBJECT, Submission
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.recognition import Recognition
from safelight.web.publication.desk import LONGEST_REASON, AskedWorkflow, WorkflowPage
from safelight.web.publication.requests import shown_requests, thresholds
from safelight.web.rendering import PagesDep
from safelight.web.story.words import counted

router = APIRouter(include_in_schema=False)

AT_A_TIME, LISTED, DECIDED, MOST_AT_ONCE = 50, 200, 50, 200
BLOCK_NOTE: Final = "Ruled out by an approver."

ApprovalsDep = Annotated[Approvals, provided(Approvals)]
Number = Annotated[int, Query(ge=0, le=LARGEST)]


@router.get("/app/{org}/workflow")
async def workflow_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    status: Annotated[str, Query(max_length=20)] = ApprovalStatus.PENDING,
    view: Annotated[str, Query(max_length=20)] = "",
    wanted: Annotated[str, Query(alias="request", max_length=64)] = "",
    cursor: str | None = None,
    decided: Number | None = None,
    others: Number = 0,
) -> Response:
    if status not in set(ApprovalStatus):
        raise InvalidRequest("Choose one of the states in the list.")
    settled = None if decided is None else _counted(decided, others)
    asked = AskedWorkflow(
        ApprovalStatus(status), view == "list", wanted or None, cursor, settled=settled
    )
    return await pages.render(request, await _page(request, access, asked))


def _counted(decided: int, others: int) -> str:
    words = f"{counted(decided, 'request')} decided."
    verb = "was" if others == 1 else "were"
    return words + (f" {others:,} {verb} decided by somebody else before." if others else "")


@router.post("/app/{org}/workflow/decide")
async def decide_many_by_form(
    request: Request,
    access: AsApprover,
    pages: PagesDep,
    workflow: ApprovalsDep,
    ids: Annotated[list[str], Form(alias="id", default_factory=list)],
    verdict: Annotated[str, Form()] = "",
    common: Annotated[str, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Each by itself: what somebody else decided meanwhile stays as it is."""
    try:
        why = _reason(common, reason) if verdict == "reject" else None
        if verdict not in {"approve", "reject"} or not ids:
            raise InvalidRequest("Choose some requests, then approve or reject them.")
        decided = await _decide_all(workflow, access, ids[:MOST_AT_ONCE], why)
    except SafelightError as error:
        refused = AskedWorkflow(as_list=True, problem=error.message)
        page = await _page(request, access, refused)
        return await pages.render(request, page, error.status)
    counts = f"decided={decided}&others={min(len(ids), MOST_AT_ONCE) - decided}"
    return RedirectResponse(f"/app/{access.organization}/workflow?view=list&{counts}", 303)


@router.post("/app/{org}/workflow/{approval_id}/approve")
async def approve_by_form(
    approval_id: str, request: Request, access: AsApprover, pages: PagesDep, workflow: ApprovalsDep
) -> Response:
    try:
        await _decide(workflow, access, approval_id, None)
    except SafelightError as error:
        return await _refused(request, access, pages, error)
    return RedirectResponse(f"/app/{access.organization}/workflow", 303)


@router.post("/app/{org}/workflow/{approval_id}/reject")
async def reject_by_form(
    approval_id: str,
    request: Request,
    access: AsApprover,
    pages: PagesDep,
    workflow: ApprovalsDep,
    common: Annotated[str, Form()] = "",
    reason: Annotated[str, Form()] = "",
    block: Annotated[str, Form()] = "",
) -> Response:
    """`block`, for admins: nothing that looks like it is published any more."""
    try:
        why = _reason(common, reason)
        ruled_out = await _ruled_out(request, access, approval_id) if block else None
        await _decide(workflow, access, approval_id, why)
        if ruled_out:
            await _block(request, access, ruled_out)
    except SafelightError as error:
        return await _refused(request, access, pages, error)
    return RedirectResponse(f"/app/{access.organization}/workflow", 303)


async def _refused(
    request: Request, access: Access, pages: PagesDep, error: SafelightError
) -> Response:
    page = await _page(request, access, AskedWorkflow(problem=error.message))
    return await pages.render(request, page, error.status)


def _reason(common: str, reason: str) -> str:
    why = " ".join(filter(None, (common.strip(), reason.strip())))
    if not why:
        raise InvalidRequest("Say why it is rejected; the submitter reads it.")
    if len(why) > LONGEST_REASON or "\0" in why:
        raise InvalidRequest(f"A reason is text of at most {LONGEST_REASON} characters.")
    return why


async def _decide(
    workflow: Approvals, access: Access, approval_id: str, why_not: str | None
) -> None:
    """Rejected where there is a reason."""
    actor, organization = access.caller.as_actor(), access.organization
    if "\0" in approval_id:
        raise UnknownApproval
    if why_not is None:
        await workflow.approve_request(organization, approval_id, actor, None)
    else:
        await workflow.reject_request(organization, approval_id, actor, why_not)


async def _decide_all(
    workflow: Approvals, access: Access, ids: Sequence[str], why_not: str | None
) -> int:
    """How many are as they were wanted."""
    decided = 0
    for approval_id in ids:
        try:
            await _decide(workflow, access, approval_id, why_not)
        except (AlreadyDecided, UnknownApproval):
            continue
        decided += 1
    return decided


async def _ruled_out(request: Request, access: Access, approval_id: str) -> Submission:
    """What is asked about, for those who may rule it out."""
    registry, organization = services(request), access.organization
    if access.caller.organizations[organization] < Role.ADMIN:
        raise Forbidden("Only admins rule pictures out for good.")
    db = registry.get(Database)
    asked = None if "\0" in approval_id else await repo.find(db, organization, approval_id)
    subject = asked.subject if asked else None
    if subject is None or subject.type != SUBJECT:
        raise UnknownApproval
    submission = await submissions.find(db, subject.id)
    if submission is None:
        raise UnknownApproval
    return submission


async def _block(request: Request, access: Access, submission: Submission) -> None:
    registry, organization = services(request), access.organization
    checksum, looks = await registry.get(Recognition).of_submission(submission)
    actor, policies = access.caller.as_actor(), registry.get(Policies)
    await policies.block(organization, checksum, looks, BLOCK_NOTE, actor)


async def _page(request: Request, access: Access, asked: AskedWorkflow) -> WorkflowPage:
    registry, organization = services(request), access.organization
    db, settings = registry.get(Database), registry.get(Settings)
    role = access.caller.organizations[organization]
    # Before the requests are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(db, organization)
    rows, more = await _rows(request, organization, asked)
    wanted = await repo.find(db, organization, asked.wanted or "")
    if wanted and wanted.status is asked.status and wanted not in rows:
        rows = sorted([*rows, wanted], key=lambda row: (row.created_at, row.id))
    shown = await shown_requests(
        db,
        organization,
        rows,
        originals=settings.thumbnails == "off",
        may_decide=role >= Role.APPROVER,
    )
    return WorkflowPage(
        organization=organization,
        after=newest,
        asked=asked,
        may_decide=role >= Role.APPROVER,
        may_block=role >= Role.ADMIN,
        total=await repo.pending_count(db, organization),
        requests=shown,
        bounds=await thresholds(db, organization, settings),
        gone=wanted if wanted and wanted.status is not ApprovalStatus.PENDING else None,
        more=more,
    )


async def _rows(
    request: Request, organization: str, asked: AskedWorkflow
) -> tuple[list[Approval], str | None]:
    """Those that wait, the longest first, as many as are shown; or a page of those decided."""
    registry = services(request)
    db, cursors = registry.get(Database), registry.get(Cursors)
    if asked.status is ApprovalStatus.PENDING:
        most = LISTED if asked.as_list else AT_A_TIME
        return (await repo.longest_pending(db, organization, most))[:most], None
    purpose = f"workflow-page:{organization}:{asked.status}"
    before = cursors.read(purpose, asked.cursor)
    place = (before[0], before[1]) if before else None
    rows = await repo.page(db, organization, asked.status, place, DECIDED)
    last = rows[DECIDED - 1] if rows[DECIDED:] else None
    more = cursors.make(purpose, [last.created_at, last.id]) if last else None
    return rows[:DECIDED], more
