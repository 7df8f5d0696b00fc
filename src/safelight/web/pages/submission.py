"""One submission: its picture, the way it went, what was found, and what may be done about it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import MemberById, ViewerById
from safelight.approvals import repo as approvals
from safelight.approvals.lifecycle import Approval
from safelight.errors import NotFound
from safelight.http.frame import DatabaseDep, provided, services
from safelight.infra import activity, feed
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.settings import Settings
from safelight.submissions import repo
from safelight.submissions.endings import Endings
from safelight.submissions.lifecycle import ENDED, Submission, SubmissionState
from safelight.submissions.recovery.decide import Staleness, Tempo, staleness
from safelight.submissions.recovery.records import SubmissionView
from safelight.web.gallery.card import readable_size
from safelight.web.image.shown import StoryLine, type_in_words
from safelight.web.publication.findings import shown_findings
from safelight.web.publication.found import KnownTwin, twin_of
from safelight.web.publication.pictures import PinnedPicture, pinned_pictures
from safelight.web.publishing import Passage, ProgressStep, steps
from safelight.web.rendering import Context, PagesDep
from safelight.web.sentences import sentence_of

router = APIRouter(include_in_schema=False)

STORY = 100  # lines of history; a submission has some ten
LOOK_AGAIN_MS = 3000  # no message tells that something takes too long


@dataclass(frozen=True, kw_only=True)
class SubmissionPage(Context):
    template: ClassVar[str] = "submission.html"
    organization: str
    submission: Submission
    picture: PinnedPicture
    steps: list[ProgressStep]
    twin: KnownTwin | None
    approval: Approval | None
    stale: Staleness | None
    story: list[StoryLine]
    details: bool
    public: str
    may_change: bool
    may_decide: bool
    look_again: int | None

    @property
    def here(self) -> str:
        return f"/submit/{self.submission.id}"

    @property
    def is_public(self) -> bool:
        return self.submission.state is SubmissionState.PUBLISHED

    @property
    def may_withdraw(self) -> bool:
        return self.may_change and self.submission.state not in ENDED

    @property
    def may_submit_again(self) -> bool:
        ended = self.submission.state in ENDED
        return self.may_change and ended and self.picture.there

    @property
    def rendition(self) -> str:
        one = self.submission
        size = readable_size(one.rendition_size) if one.rendition_size else None
        return " · ".join(filter(None, (type_in_words(one.rendition_type), size)))

    @property
    def source(self) -> str:
        one = self.submission
        return f"{type_in_words(one.content_type)} · {readable_size(one.size_bytes)}"


@router.get("/submit/{submission_id}")
async def submission_page(
    submission_id: str,
    request: Request,
    caller: ViewerById,
    pages: PagesDep,
    db: DatabaseDep,
    details: bool = False,
) -> Response:
    organization = (await _visible(db, caller, submission_id, Role.VIEWER)).organization
    # The frame around the page shows the organization of the path; here it is the submission's.
    request.path_params["org"] = organization
    role = caller.organizations[organization]
    page = await _page(request, organization, submission_id, role, details=details)
    return await pages.render(request, page)


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


async def _view(db: Database, submission_id: str, now: int) -> SubmissionView:
    view = await repo.view(db, submission_id, now)
    if view is None:
        raise NotFound
    return view


async def _page(
    request: Request, organization: str, submission_id: str, role: Role, *, details: bool
) -> SubmissionPage:
    registry = services(request)
    db, settings = registry.get(Database), registry.get(Settings)
    now = registry.get(Clock).now_ms()
    # Before the submission is read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(db, organization)
    view = await _view(db, submission_id, now)
    one = view.submission
    subjects = [one.subject]
    lines = await activity.latest(db, organization, subjects, before=None, limit=STORY)
    findings = (await shown_findings(db, organization, [one]))[one.id]
    found = one.approval_id
    approval = await approvals.find(db, organization, found) if found else None
    originals, decides = settings.thumbnails == "off", role >= Role.APPROVER
    pictures = await pinned_pictures(
        db, organization, [one], originals=originals, may_decide=decides
    )
    told = [StoryLine(line.seq, line.at, sentence_of(line)) for line in lines[:STORY]]
    return SubmissionPage(
        title=one.title or one.source_id,
        after=newest,
        organization=organization,
        submission=one,
        picture=pictures[one.id],
        steps=steps(Passage.of(one, lines, findings, approval)),
        twin=twin_of(findings),
        approval=approval,
        stale=staleness(view.progress, now, registry.get(Tempo)),
        story=[line for line in told if details or not line.sentence.inner],
        details=details,
        public=settings.public_url or str(request.base_url).rstrip("/"),
        may_change=role >= Role.MEMBER,
        may_decide=decides and one.state is SubmissionState.AWAITING_APPROVAL,
        look_again=LOOK_AGAIN_MS if one.state.under_way else None,
    )
