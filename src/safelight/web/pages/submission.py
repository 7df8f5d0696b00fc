"""One submission: where it stands, what was found, and the way to take it back."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import allow_by_id
from safelight.http.frame import provided
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.submissions import repo
from safelight.submissions.end import OVER, End, UnknownSubmission
from safelight.submissions.findings import Finding
from safelight.submissions.lifecycle import UNDER_WAY, State
from safelight.submissions.moments import to_ms
from safelight.submissions.repo import Submission
from safelight.submissions.show import progress_of
from safelight.submissions.staleness import staleness
from safelight.submissions.tempo import Tempo
from safelight.web.publishing.steps import Step, steps
from safelight.web.publishing.words import RANK, SEVERITIES, STATES, Look
from safelight.web.rendering import Context, Pages, registry_of

router = APIRouter(include_in_schema=False)

STORY = 200  # lines of history; a submission has some ten
LOOK_AGAIN_MS = 3000  # no message tells that something takes too long

ViewerById = Annotated[Caller, allow_by_id(Role.VIEWER)]
MemberById = Annotated[Caller, allow_by_id(Role.MEMBER)]
Rendered = Annotated[Pages, provided(Pages)]
Db = Annotated[Database, provided(Database)]


@dataclass(frozen=True, slots=True)
class Remark:
    look: Look
    finding: Finding


@dataclass(frozen=True, slots=True)
class Stale:
    message: str
    since: int
    next_attempt: int | None


@dataclass(frozen=True, kw_only=True)
class SubmissionPage(Context):
    template: ClassVar[str] = "submission.html"
    submission: Submission
    look: Look
    steps: list[Step]
    remarks: list[Remark]
    stale: Stale | None
    picture: str | None
    may_withdraw: bool
    may_decide: bool
    look_again: int | None
    after: int  # the newest seq of the feed before the submission was read

    @property
    def here(self) -> str:
        return f"/submit/{self.submission.id}"


@router.get("/submit/{submission_id}")
async def submission_page(
    submission_id: str, request: Request, caller: ViewerById, pages: Rendered, db: Db
) -> Response:
    organization = (await _visible(db, caller, submission_id, Role.VIEWER)).organization
    # The frame around the page shows the organization of the path; here it is the submission's.
    request.path_params["org"] = organization
    return pages.render(request, await _page(request, caller, organization, submission_id))


@router.post("/submit/{submission_id}/withdraw")
async def withdraw_by_form(
    submission_id: str, caller: MemberById, db: Db, end: Annotated[End, provided(End)]
) -> Response:
    found = await _visible(db, caller, submission_id, Role.MEMBER)
    await end.withdraw(found.id, caller.as_actor())
    return RedirectResponse(f"/submit/{found.id}", 303)


async def _visible(db: Database, caller: Caller, submission_id: str, role: Role) -> Submission:
    found = await repo.find(db, submission_id)
    if found is None:
        raise UnknownSubmission
    authorize(caller, found.organization, role)
    return found


async def _page(
    request: Request, caller: Caller, organization: str, submission_id: str
) -> SubmissionPage:
    registry, role = registry_of(request), caller.organizations[organization]
    db, now = registry.get(Database), registry.get(Clock).now_ms()
    # Before the submission is read, so that whatever changes from here on is news to the page.
    _, newest = await activity.bounds(db, organization)
    seen = await repo.see(db, submission_id, now)
    if seen is None:
        raise UnknownSubmission
    submission = seen.submission
    may_decide = role >= Role.APPROVER and submission.state is State.AWAITING_APPROVAL
    return SubmissionPage(
        title=submission.title or submission.source_id,
        submission=submission,
        look=STATES[submission.state],
        steps=steps(submission.state, await _reached(db, submission)),
        remarks=_remarks(submission),
        stale=_stale(staleness(progress_of(seen), now, registry.get(Tempo))),
        picture=_picture(submission, may_decide=may_decide),
        may_withdraw=role >= Role.MEMBER and submission.state not in OVER,
        may_decide=may_decide,
        look_again=LOOK_AGAIN_MS if submission.state in UNDER_WAY else None,
        after=newest,
    )


async def _reached(db: Database, submission: Submission) -> dict[State, int]:
    """When it entered each state."""
    story = await activity.of_subject(
        db, submission.organization, submission.subject, after=0, limit=STORY
    )
    moves = [line for line in story if line.type == "submission_state_changed"]
    times = {State(line.data["to"]): line.at for line in moves}
    return {State.RECEIVED: submission.created_at, **times}


def _remarks(submission: Submission) -> list[Remark]:
    """The gravest first."""
    findings = [Finding.load(value) for value in submission.findings]
    findings.sort(key=lambda finding: RANK.index(finding.severity))
    return [Remark(SEVERITIES[finding.severity], finding) for finding in findings]


def _stale(told: dict[str, Any] | None) -> Stale | None:
    if told is None:
        return None
    due = told["nextAttemptAt"]
    return Stale(told["message"], to_ms(told["staleSince"]), None if due is None else to_ms(due))


def _picture(submission: Submission, *, may_decide: bool) -> str | None:
    if submission.state is State.PUBLISHED:
        return f"/public/{submission.id}"
    return f"/api/v1/submissions/{submission.id}/preview" if may_decide else None
