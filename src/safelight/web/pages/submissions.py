"""An organization's submissions with their pictures, and choosing a picture to submit."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

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
from safelight.infra.states import Phase
from safelight.settings import Settings
from safelight.submissions import repo
from safelight.submissions.lifecycle import Submission, SubmissionState
from safelight.submissions.recovery.decide import Tempo, staleness
from safelight.submissions.submit import SubmissionRequest, Submit
from safelight.web.publication.picker import PickedPage, Picker, SourceTile, new_address
from safelight.web.publication.pictures import PinnedPicture, pinned_pictures
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)

PER_PAGE, MOST_COUNTED = 50, 1000
LONGEST_TITLE = 200

# The tabs: the words of each, and what it shows. An address may name any single state as well.
TABS: Final[dict[str, tuple[str, SubmissionState | Phase | None]]] = {
    "": ("All", None),
    "under-way": ("Under way", Phase.UNDER_WAY),
    SubmissionState.AWAITING_APPROVAL: ("Waiting for a person", SubmissionState.AWAITING_APPROVAL),
    SubmissionState.PUBLISHED: ("Published", SubmissionState.PUBLISHED),
    SubmissionState.REJECTED: ("Rejected", SubmissionState.REJECTED),
    SubmissionState.WITHDRAWN: ("Withdrawn", SubmissionState.WITHDRAWN),
}


@dataclass(frozen=True, slots=True)
class SubmissionRow:
    submission: Submission
    picture: PinnedPicture
    stale: bool


@dataclass(frozen=True, kw_only=True)
class SubmissionsPage(Context):
    template: ClassVar[str] = "submissions.html"
    title: str = "Publish"
    organization: str
    may_submit: bool
    wanted: str
    counts: dict[SubmissionState, int]
    rows: list[SubmissionRow]
    more: str | None  # cursor of the next page
    newest: bool
    public: str

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/submissions"

    @property
    def tabs(self) -> list[tuple[str, str, bool, str]]:
        return [
            (
                words,
                self.here + (f"?state={name}" if name else ""),
                name == self.wanted,
                self._count(of),
            )
            for name, (words, of) in TABS.items()
        ]

    def _count(self, of: SubmissionState | Phase | None) -> str:
        states = (
            SubmissionState.in_phase(of)
            if isinstance(of, Phase)
            else (of,)
            if of
            else SubmissionState
        )
        amounts = [self.counts.get(state, 0) for state in states]
        more = "+" if max(amounts) >= MOST_COUNTED else ""
        return f"{sum(amounts):,}{more}"


@dataclass(frozen=True, slots=True)
class TypedSubmission:
    """What stands in the form; `source` is `upload:name` or `artifact:id`."""

    source: str = ""
    title: str = ""
    q: str = ""


@dataclass(frozen=True, kw_only=True)
class PickerPage(Context):
    template: ClassVar[str] = "submit.html"
    title: str = "Submit an image"
    organization: str
    typed: TypedSubmission
    chosen: SourceTile | None
    picked: PickedPage
    more: str | None
    problem: str | None = None
    longest_title: ClassVar[int] = LONGEST_TITLE

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/submissions"

    @property
    def uploads(self) -> list[SourceTile]:
        """What is chosen stands before the others, so that it is seen to be."""
        others = [tile for tile in self.picked.uploads if tile != self.chosen]
        return [self.chosen, *others] if self.chosen else others

    @property
    def made(self) -> list[SourceTile]:
        chosen = self.chosen.source if self.chosen else None
        return [tile for tile in self.picked.made if tile.source != chosen]


@router.get("/app/{org}/submissions")
async def submissions_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    state: Annotated[str, Query(max_length=30)] = "",
    upload: Annotated[str, Query(max_length=1024)] = "",
    cursor: str | None = None,
) -> Response:
    if upload:
        chosen = new_address(access.organization, upload=upload)
        return RedirectResponse(chosen, 303)
    if state not in TABS and state not in set(SubmissionState):
        raise InvalidRequest("Choose one of the states in the list.")
    return await pages.render(request, await _page(request, access, state, cursor))


@router.get("/app/{org}/submissions/new")
async def picker_page(
    request: Request,
    access: AsMember,
    pages: PagesDep,
    q: Annotated[str, Query(max_length=500)] = "",
    upload: Annotated[str, Query(max_length=1024)] = "",
    artifact: Annotated[str, Query(max_length=64)] = "",
    title: Annotated[str, Query(max_length=LONGEST_TITLE)] = "",
    cursor: str | None = None,
) -> Response:
    """`upload` or `artifact` is chosen already, for links from elsewhere."""
    source = f"upload:{upload}" if upload else f"artifact:{artifact}" if artifact else ""
    typed = TypedSubmission(source, title, q.strip())
    return await pages.render(request, await _picker(request, access, typed, cursor))


@router.post("/app/{org}/submissions")
async def submit_by_form(
    request: Request,
    access: AsMember,
    pages: PagesDep,
    submissions: Annotated[Submit, provided(Submit)],
    source: Annotated[str, Form()] = "",
    upload: Annotated[str, Form()] = "",
    title: Annotated[str, Form()] = "",
) -> Response:
    typed = TypedSubmission(source or (f"upload:{upload}" if upload else ""), title.strip())
    try:
        made = await submissions.submit(_wanted(access, typed))
    except SafelightError as error:
        shown = await _picker(request, access, typed, None, error.message)
        return await pages.render(request, shown, error.status)
    return RedirectResponse(f"/submit/{made.id}", 303)


def _wanted(access: Access, typed: TypedSubmission) -> SubmissionRequest:
    kind, _, source_id = typed.source.partition(":")
    if not source_id:
        raise InvalidRequest("Choose a picture first.")
    if "\0" in source_id + typed.title:
        raise InvalidRequest("Names and titles are made of letters that can be read.")
    if len(typed.title) > LONGEST_TITLE:
        raise InvalidRequest(f"A title has at most {LONGEST_TITLE} characters.")
    actor = access.caller.as_actor()
    return SubmissionRequest(access.organization, kind, source_id, typed.title or None, actor)


async def _picker(
    request: Request,
    access: Access,
    typed: TypedSubmission,
    cursor: str | None,
    problem: str | None = None,
) -> PickerPage:
    registry, organization = services(request), access.organization
    cursors = registry.get(Cursors)
    originals = registry.get(Settings).thumbnails == "off"
    picker = Picker(registry.get(Database), organization, originals)
    purpose = f"picker:{organization}:{typed.q}"
    before = cursors.read(purpose, cursor)
    picked = await picker.page(typed.q, (before[0], before[1]) if before else None)
    readable = "" if "\0" in typed.source else typed.source
    return PickerPage(
        organization=organization,
        typed=typed,
        chosen=await picker.chosen(readable),
        picked=picked,
        more=cursors.make(purpose, picked.more) if picked.more else None,
        problem=problem,
    )


async def _page(
    request: Request, access: Access, wanted: str, cursor: str | None
) -> SubmissionsPage:
    registry, organization = services(request), access.organization
    db = registry.get(Database)
    # Before the rows are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(db, organization)
    rows, more = await _rows(request, access, wanted, cursor)
    return SubmissionsPage(
        organization=organization,
        may_submit=access.caller.organizations[organization] >= Role.MEMBER,
        wanted=wanted,
        counts=await repo.counts(db, organization, MOST_COUNTED),
        rows=rows,
        more=more,
        newest=cursor is None,
        after=newest,
        public=registry.get(Settings).public_url or str(request.base_url).rstrip("/"),
    )


async def _rows(
    request: Request, access: Access, wanted: str, cursor: str | None
) -> tuple[list[SubmissionRow], str | None]:
    """And the cursor of what follows."""
    registry, organization = services(request), access.organization
    db, cursors, tempo = registry.get(Database), registry.get(Cursors), registry.get(Tempo)
    now = registry.get(Clock).now_ms()
    purpose = f"submissions-page:{organization}:{wanted}"
    before = cursors.read(purpose, cursor)
    place = (before[0], before[1]) if before else None
    _, states = TABS[wanted] if wanted in TABS else ("", SubmissionState(wanted))
    views = await repo.page(db, organization, states, place, PER_PAGE, now)
    shown = views[:PER_PAGE]
    pictures = await pinned_pictures(
        db,
        organization,
        [view.submission for view in shown],
        originals=registry.get(Settings).thumbnails == "off",
        may_decide=access.caller.organizations[organization] >= Role.APPROVER,
    )
    rows = [
        SubmissionRow(
            view.submission,
            pictures[view.submission.id],
            staleness(view.progress, now, tempo) is not None,
        )
        for view in shown
    ]
    last = rows[-1].submission if len(views) > PER_PAGE else None
    return rows, cursors.make(purpose, [last.created_at, last.id]) if last else None
