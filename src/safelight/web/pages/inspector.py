"""What happens in an organization, line by line as it happens, and as it was at any time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsViewer
from safelight.errors import InvalidRequest
from safelight.http.frame import provided, services
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.queue.queue import Queue
from safelight.live.messages import Messages
from safelight.web.inspector.read import Stream, StreamPage, StreamPlace
from safelight.web.inspector.stream import StreamHour, by_hour
from safelight.web.inspector.topics import TOPICS, StreamFilter, Topic, offered
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 300  # lines that a page keeps while it follows
_LOOK_MS = 10_000  # what is not told live is looked for
_MOST_MINUTES = 15 * 60
LineSeq = Annotated[int | None, Query(ge=0, lt=2**63)]


@dataclass(frozen=True, kw_only=True)
class LinesFragment(Context):
    """What is new since a place, each line by itself: the page gathers what belongs together."""

    template: ClassVar[str] = "inspector_lines.html"
    title: str = "Activity"
    shown: StreamPage

    @property
    def hours(self) -> list[StreamHour]:
        return by_hour(self.shown.lines, together=False)


@dataclass(frozen=True, kw_only=True)
class InspectorPage(Context):
    template: ClassVar[str] = "inspector.html"
    title: str = "Activity"
    organization: str
    admin: bool
    wanted: StreamFilter
    place: StreamPlace
    shown: StreamPage
    letters: int | None  # of the organization, for those who may see them
    most: ClassVar[int] = _MOST_SHOWN
    look_again: ClassVar[int] = _LOOK_MS

    @property
    def base(self) -> str:
        return f"/app/{self.organization}/inspector"

    @property
    def hours(self) -> list[StreamHour]:
        return by_hour(self.shown.lines)

    @property
    def topics(self) -> list[tuple[Topic, str, bool]]:
        """With the address that chooses each, or no longer does."""
        return [
            (topic, self.base + self.wanted.toggled(topic.key).query(), topic.key in wanted)
            for wanted in [self.wanted.only]
            for topic in offered(admin=self.admin)
        ]

    @property
    def with_inner(self) -> str:
        return self.base + self.wanted.with_inner(not self.wanted.inner).query()

    @property
    def newest_end(self) -> str:
        return self.base + self.wanted.query()

    @property
    def older(self) -> str | None:
        if not self.shown.older or self.shown.last is None:
            return None
        return self.base + self.wanted.query(before=self.shown.last)

    @property
    def newer(self) -> str | None:
        if not self.shown.newer or self.shown.first is None:
            return None
        return self.base + self.wanted.query(after=self.shown.first)

    @property
    def lines(self) -> str:
        """Where what is new is asked for."""
        return f"{self.base}/lines{self.wanted.query()}"

    @property
    def marked(self) -> int | None:
        """The line that a moment which was asked for begins with."""
        around = self.place.around
        later = [line.seq for line in self.shown.lines if around is None or line.seq > around]
        return min(later, default=self.shown.first) if around is not None else None


def filter_from(
    only: Annotated[str, Query(max_length=200)] = "",
    inner: bool = False,
    q: Annotated[str, Query(max_length=1100)] = "",
    subject: Annotated[str, Query(max_length=1100)] = "",
) -> StreamFilter:
    """A form sends its empty fields too; they ask for nothing."""
    chosen = {part for part in only.split(",") if part}
    if not chosen <= {topic.key for topic in TOPICS}:
        raise InvalidRequest("Choose among the topics that are offered.")
    text = (subject or q).strip()
    if "\0" in text:
        raise InvalidRequest("Names are made of letters that can be read.")
    keys = tuple(topic.key for topic in TOPICS if topic.key in chosen)
    return StreamFilter(keys, inner, text)


def place_from(
    before: LineSeq = None, after: LineSeq = None, around: LineSeq = None
) -> StreamPlace:
    if sum(one is not None for one in (before, after, around)) > 1:
        raise InvalidRequest("Say before, after or around a line, and not two of them.")
    return StreamPlace(before, after, around)


WantedDep = Annotated[StreamFilter, Depends(filter_from)]
PlaceDep = Annotated[StreamPlace, Depends(place_from)]
MessagesDep = Annotated[Messages, provided(Messages)]


@router.get("/app/{org}/inspector")
async def inspector_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    messages: MessagesDep,
    wanted: WantedDep,
    place: PlaceDep,
    at: Annotated[str, Query(max_length=40)] = "",
    zone: Annotated[int, Query(ge=-_MOST_MINUTES, le=_MOST_MINUTES)] = 0,
) -> Response:
    """`at` is by the clock of a reader who is `zone` minutes behind UTC."""
    stream, organization = _stream(request, access, messages), access.organization
    if at:
        around = await stream.at(_moment(at, zone))
        there = f"/app/{organization}/inspector{wanted.query(around=str(around))}#moment"
        return RedirectResponse(there, 303)
    # Before the lines are read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(stream.db, organization)
    queue = services(request).get(Queue)
    page = InspectorPage(
        after=newest,
        organization=organization,
        admin=stream.admin,
        wanted=wanted,
        place=place,
        shown=await stream.page(wanted, place),
        letters=await queue.dead_letters.count(organization) if stream.admin else None,
    )
    return await pages.render(request, page)


@router.get("/app/{org}/inspector/lines")
async def new_lines(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    messages: MessagesDep,
    wanted: WantedDep,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
) -> Response:
    """What came after a line, without the page."""
    shown = await _stream(request, access, messages).page(wanted, StreamPlace(after=after))
    return await pages.render(request, LinesFragment(after=shown.first or after, shown=shown))


def _stream(request: Request, access: Access, messages: Messages) -> Stream:
    admin = access.caller.organizations[access.organization] >= Role.ADMIN
    return Stream(services(request).get(Database), messages, access.organization, admin)


def _moment(text: str, zone: int) -> int:
    try:
        said = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest("Say when, as 2026-03-29T14:30.") from error
    known = said if said.tzinfo else said.replace(tzinfo=UTC)
    return round(known.timestamp() * 1000) + (0 if said.tzinfo else zone * 60_000)
