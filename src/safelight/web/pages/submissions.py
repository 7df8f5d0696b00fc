"""An organization's submissions, and the form that makes one."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsMember, AsViewer
from safelight.errors import InvalidRequest, SafelightError
from safelight.http.frame import provided, services
from safelight.http.paging import Cursors
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.library.entry import LibraryFilter
from safelight.library.lists import repo as lists
from safelight.submissions import repo
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.submissions.recovery.decide import Tempo, staleness
from safelight.submissions.submit import SubmissionRequest, Submit
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)

PER_PAGE, SUGGESTED = 50, 50
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class SubmissionRow:
    submission: Submission
    stale: bool


@dataclass(frozen=True, kw_only=True)
class SubmissionsPage(Context):
    template: ClassVar[str] = "submissions.html"
    title: str = "Submissions"
    organization: str
    may_submit: bool
    wanted: SubmissionState | None
    rows: list[SubmissionRow]
    more: str | None  # cursor of the next page
    newest: bool
    uploads: list[str]
    source: str
    words: str = ""
    problem: str | None = None
    states: ClassVar[tuple[SubmissionState, ...]] = tuple(SubmissionState)
    longest_title: ClassVar[int] = LONGEST_TITLE

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/submissions"


@dataclass(frozen=True, slots=True)
class Typed:
    """What stands in the form."""

    source: str = ""
    title: str = ""


@router.get("/app/{org}/submissions")
async def submissions_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    state: Annotated[str, Query(max_length=30)] = "",
    upload: Annotated[str, Query(max_length=1024)] = "",
    cursor: str | None = None,
) -> Response:
    """`upload` fills in the form, for links from elsewhere."""
    if state and state not in set(SubmissionState):
        raise InvalidRequest("Choose one of the states in the list.")
    wanted = SubmissionState(state) if state else None
    shown = await _page(request, access, wanted, cursor, Typed(upload))
    return await pages.render(request, shown)


@router.post("/app/{org}/submissions")
async def submit_by_form(
    request: Request,
    access: AsMember,
    pages: PagesDep,
    submissions: Annotated[Submit, provided(Submit)],
    upload: Annotated[str, Form()] = "",
    title: Annotated[str, Form()] = "",
) -> Response:
    typed = Typed(upload, title.strip())
    try:
        made = await submissions.submit(_wanted(access, typed))
    except SafelightError as error:
        shown = await _page(request, access, None, None, typed, error.message)
        return await pages.render(request, shown, error.status)
    return RedirectResponse(f"/submit/{made.id}", 303)


def _wanted(access: Access, typed: Typed) -> SubmissionRequest:
    if not typed.source:
        raise InvalidRequest("Say which image: write its name, or choose one of the list.")
    if "\0" in typed.source + typed.title:
        raise InvalidRequest("Names and titles are made of letters that can be read.")
    if len(typed.title) > LONGEST_TITLE:
        raise InvalidRequest(f"A title has at most {LONGEST_TITLE} characters.")
    actor = access.caller.as_actor()
    return SubmissionRequest(
        access.organization, "upload", typed.source, typed.title or None, actor
    )


async def _page(
    request: Request,
    access: Access,
    wanted: SubmissionState | None,
    cursor: str | None,
    typed: Typed,
    problem: str | None = None,
) -> SubmissionsPage:
    db = services(request).get(Database)
    may_submit = access.caller.organizations[access.organization] >= Role.MEMBER
    # Before the rows are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(db, access.organization)
    rows, more = await _rows(request, access.organization, wanted, cursor)
    return SubmissionsPage(
        organization=access.organization,
        may_submit=may_submit,
        wanted=wanted,
        rows=rows,
        more=more,
        newest=cursor is None,
        after=newest,
        uploads=await _uploads(db, access.organization) if may_submit else [],
        source=typed.source,
        words=typed.title,
        problem=problem,
    )


async def _rows(
    request: Request, organization: str, wanted: SubmissionState | None, cursor: str | None
) -> tuple[list[SubmissionRow], str | None]:
    """And the cursor of what follows."""
    registry = services(request)
    cursors, tempo = registry.get(Cursors), registry.get(Tempo)
    now = registry.get(Clock).now_ms()
    purpose = f"submissions-page:{organization}:{wanted}"
    before = cursors.read(purpose, cursor)
    place = (before[0], before[1]) if before else None
    views = await repo.page(registry.get(Database), organization, wanted, place, PER_PAGE, now)
    rows = [
        SubmissionRow(view.submission, staleness(view.progress, now, tempo) is not None)
        for view in views[:PER_PAGE]
    ]
    last = rows[-1].submission if len(views) > PER_PAGE else None
    return rows, cursors.make(purpose, [last.created_at, last.id]) if last else None


async def _uploads(db: Database, organization: str) -> list[str]:
    """The newest names, for the form to suggest."""
    found = await lists.page(db, organization, LibraryFilter(), None, SUGGESTED)
    return [upload.name for upload in found[:SUGGESTED]]
