"""One submission: where it stands, what was found, and the way to take it back."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import MemberById, ViewerById
from safelight.errors import NotFound
from safelight.http.frame import DatabaseDep, provided, services
from safelight.infra import activity, feed
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.submissions import repo
from safelight.submissions.endings import Endings
from safelight.submissions.findings import Finding, Severity
from safelight.submissions.lifecycle import ENDED, Submission, SubmissionState
from safelight.submissions.recovery.decide import Staleness, Tempo, staleness
from safelight.web.publishing import ProgressStep, steps
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)

STORY = 200  # lines of history; a submission has some ten
LOOK_AGAIN_MS = 3000  # no message tells that something takes too long


@dataclass(frozen=True, kw_only=True)
class SubmissionPage(Context):
    template: ClassVar[str] = "submission.html"
    submission: Submission
    steps: list[ProgressStep]
    findings: list[Finding]
    stale: Staleness | None
    picture: str | None
    may_withdraw: bool
    may_decide: bool
    look_again: int | None

    @property
    def here(self) -> str:
        return f"/submit/{self.submission.id}"


@router.get("/submit/{submission_id}")
async def submission_page(
    submission_id: str, request: Request, caller: ViewerById, pages: PagesDep, db: DatabaseDep
) -> Response:
    organization = (await _visible(db, caller, submission_id, Role.VIEWER)).organization
    # The frame around the page shows the organization of the path; here it is the submission's.
    request.path_params["org"] = organization
    return await pages.render(request, await _page(request, caller, organization, submission_id))


@router.post("/submit/{submission_id}/withdraw")
async def withdraw_by_form(
    submission_id: str,
    caller: MemberById,
    db: DatabaseDep,
    endings: Annotated[Endings, provided(Endings)],
) -> Response:
    found = await _visible(db, caller, submission_id, Role.MEMBER)
    await endings.withdraw(found, caller.as_actor())
    return RedirectResponse(f"/submit/{found.id}", 303)


async def _visible(db: Database, caller: Caller, submission_id: str, role: Role) -> Submission:
    found = await repo.find(db, submission_id)
    if found is None:
        raise NotFound
    authorize(caller, found.organization, role)
    return found


async def _page(
    request: Request, caller: Caller, organization: str, submission_id: str
) -> SubmissionPage:
    registry, role = services(request), caller.organizations[organization]
    db, now = registry.get(Database), registry.get(Clock).now_ms()
    # Before the submission is read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(db, organization)
    view = await repo.view(db, submission_id, now)
    if view is None:
        raise NotFound
    submission = view.submission
    may_decide = role >= Role.APPROVER and submission.state is SubmissionState.AWAITING_APPROVAL
    return SubmissionPage(
        title=submission.title or submission.source_id,
        submission=submission,
        steps=steps(submission.state, await _reached(db, submission)),
        findings=_gravest_first(submission),
        stale=staleness(view.progress, now, registry.get(Tempo)),
        picture=_picture(submission, may_decide=may_decide),
        may_withdraw=role >= Role.MEMBER and submission.state not in ENDED,
        may_decide=may_decide,
        look_again=LOOK_AGAIN_MS if submission.state.under_way else None,
        after=newest,
    )


async def _reached(db: Database, submission: Submission) -> dict[SubmissionState, int]:
    """When it entered each state."""
    story = await activity.of_subject(
        db, submission.organization, submission.subject, after=0, limit=STORY
    )
    moves = [line for line in story if line.type == "submission_state_changed"]
    times = {SubmissionState(line.data["to"]): line.at for line in moves}
    return {SubmissionState.RECEIVED: submission.created_at, **times}


def _gravest_first(submission: Submission) -> list[Finding]:
    rank = list(Severity)
    findings = [Finding.load(value) for value in submission.findings]
    return sorted(findings, key=lambda finding: rank.index(finding.severity))


def _picture(submission: Submission, *, may_decide: bool) -> str | None:
    if submission.state is SubmissionState.PUBLISHED:
        return f"/public/{submission.id}"
    return f"/api/v1/submissions/{submission.id}/preview" if may_decide else None
