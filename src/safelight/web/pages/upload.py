"""The gallery and upload page. Without scripts it lists, searches, uploads and deletes by forms;
with them the same cards, rendered here, come and go by themselves."""

import json
from dataclasses import dataclass
from typing import Annotated, ClassVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, allow
from safelight.errors import InvalidRequest, NotFound, SafelightError
from safelight.http.paging import Cursors
from safelight.http.registry import Registry, provided
from safelight.infra import activity
from safelight.infra.clock import Clock
from safelight.infra.db import Database
from safelight.ingest import repo as ingest_repo
from safelight.ingest.accept import Ingest, OnConflict
from safelight.ingest.deletion import Deletion
from safelight.ingest.routes import upload as receive
from safelight.library import repo as library_repo
from safelight.library.entry import RunState
from safelight.library.routes import delete as delete_upload
from safelight.settings import Settings
from safelight.web import repo
from safelight.web.pages.cards import STATUS_WORDS, Card, Wanted, of_entry, of_image
from safelight.web.rendering import Context, Pages, registry_of

router = APIRouter(include_in_schema=False)

PAGE_SIZE = 48
MOST_NAMES = 50
_MOST_LABELS = 200
_MOST_WAITING = 200
_FAILURES_SHOWN_MS = 24 * 3600 * 1000

Viewer = Annotated[Access, allow(Role.VIEWER)]
Member = Annotated[Access, allow(Role.MEMBER)]


@dataclass(frozen=True, kw_only=True)
class CardsFragment(Context):
    template: ClassVar[str] = "upload_cards.html"
    title: str = "Images"
    organization: str
    may_change: bool
    cards: list[Card]


@dataclass(frozen=True, kw_only=True)
class UploadPage(CardsFragment):
    template: ClassVar[str] = "upload.html"
    address: str
    accepted: str
    most_bytes: int
    wanted: Wanted
    labels: list[str]
    after: int  # the newest seq of the feed before the cards were read
    newest: bool  # the first page, where new images appear
    more: str | None  # cursor of the next page
    received: str | None = None
    deleted: bool = False
    problem: str | None = None

    @property
    def statuses(self) -> dict[RunState, str]:
        return STATUS_WORDS

    @property
    def here(self) -> str:
        return f"/app/{self.organization}/upload"


@dataclass(frozen=True, kw_only=True)
class DeletePage(Context):
    template: ClassVar[str] = "upload_delete.html"
    title: str = "Delete an image"
    organization: str
    name: str


def wanted_from(
    q: Annotated[str, Query(max_length=500)] = "",
    label: Annotated[str, Query(max_length=200)] = "",
    status: Annotated[str, Query(max_length=20)] = "",
) -> Wanted:
    """A form sends its empty fields too; they ask for nothing."""
    if status and status not in set(RunState):
        raise InvalidRequest("Choose one of the states in the list.")
    return Wanted(q.strip() or None, label or None, RunState(status) if status else None)


WantedFrom = Annotated[Wanted, Depends(wanted_from)]


@router.get("/app/{org}/upload")
async def upload_page(
    request: Request,
    access: Viewer,
    wanted: WantedFrom,
    cursor: str | None = None,
    received: str | None = None,
    deleted: bool = False,
) -> Response:
    page = await _page(request, access, wanted, cursor, received=received, deleted=deleted)
    return registry_of(request).get(Pages).render(request, page)


@router.post("/app/{org}/upload")
async def upload_by_form(
    request: Request, access: Member, ingest: Annotated[Ingest, provided(Ingest)]
) -> Response:
    """The same as POST /api/upload, for a form: comes back to the page."""
    try:
        answer = await receive(request, access, ingest, on_conflict=OnConflict.RENAME)
    except SafelightError as error:
        page = await _page(request, access, Wanted(), None, problem=error.message)
        return registry_of(request).get(Pages).render(request, page, error.status)
    image_id = json.loads(bytes(answer.body))["imageId"]
    return RedirectResponse(f"/app/{access.organization}/upload?received={image_id}", 303)


@router.get("/app/{org}/upload/cards")
async def cards(
    request: Request,
    access: Viewer,
    wanted: WantedFrom,
    name: Annotated[list[str], Query(max_length=MOST_NAMES)],
) -> Response:
    """The cards of these names as they are now, without the page; one that is gone is left out."""
    found = await _cards_named(registry_of(request), access.organization, name)
    fragment = CardsFragment(
        organization=access.organization,
        may_change=_may_change(access),
        cards=[card for card in found if wanted.matches(card)],
    )
    return registry_of(request).get(Pages).render(request, fragment)


@router.get("/app/{org}/upload/delete")
async def confirm_delete(
    request: Request,
    access: Member,
    db: Annotated[Database, provided(Database)],
    name: Annotated[str, Query(max_length=1000)],
) -> Response:
    if not await library_repo.was_ever_seen(db, access.organization, name):
        raise NotFound(f"There is no image called {name}.")
    page = DeletePage(organization=access.organization, name=name)
    return registry_of(request).get(Pages).render(request, page)


@router.post("/app/{org}/upload/delete")
async def delete_by_form(
    access: Member,
    db: Annotated[Database, provided(Database)],
    deletion: Annotated[Deletion, provided(Deletion)],
    name: Annotated[str, Form()],
) -> Response:
    await delete_upload(name, access, db, deletion)
    return RedirectResponse(f"/app/{quote(access.organization)}/upload?deleted=true", 303)


async def _page(
    request: Request,
    access: Access,
    wanted: Wanted,
    cursor: str | None,
    *,
    received: str | None = None,
    deleted: bool = False,
    problem: str | None = None,
) -> UploadPage:
    registry, organization = registry_of(request), access.organization
    db, settings = registry.get(Database), registry.get(Settings)
    _, newest = await activity.bounds(db, organization)  # before the cards: what follows is news
    shown, more = await _cards(registry, organization, wanted, cursor)
    return UploadPage(
        organization=organization,
        may_change=_may_change(access),
        cards=shown,
        address=settings.public_url or str(request.base_url).rstrip("/"),
        accepted=",".join(settings.accepted_types),
        most_bytes=settings.max_upload_bytes,
        wanted=wanted,
        labels=await _labels(db, organization, wanted),
        after=newest,
        newest=cursor is None,
        more=more,
        received=await _received(db, organization, received),
        deleted=deleted,
        problem=problem,
    )


async def _cards(
    registry: Registry, organization: str, wanted: Wanted, cursor: str | None
) -> tuple[list[Card], str | None]:
    if wanted.is_wordless:
        return [], None
    db, cursors = registry.get(Database), registry.get(Cursors)
    purpose = f"gallery:{organization}{wanted.query()}"
    before = cursors.read(purpose, cursor)
    rows = await library_repo.page(
        db, organization, wanted.as_filters(), (before[0], before[1]) if before else None, PAGE_SIZE
    )
    entries, is_more = rows[:PAGE_SIZE], len(rows) > PAGE_SIZE
    shown = await _of_entries(db, organization, entries)
    if cursor is None:
        waiting = await _waiting(registry, organization, None)
        shown = sorted(
            [*filter(wanted.matches, waiting), *shown], key=lambda card: card.at, reverse=True
        )
    last = entries[-1] if is_more else None
    return shown, cursors.make(purpose, [last.event_time, last.name]) if last else None


async def _cards_named(registry: Registry, organization: str, names: list[str]) -> list[Card]:
    db = registry.get(Database)
    found = [await library_repo.find(db, organization, name) for name in names]
    entries = [entry for entry in found if entry is not None]
    return [
        *await _of_entries(db, organization, entries),
        *await _waiting(registry, organization, names),
    ]


async def _of_entries(
    db: Database, organization: str, entries: list[library_repo.Upload]
) -> list[Card]:
    troubled = {RunState.RUNNING, RunState.FAILED}
    names = [entry.name for entry in entries if entry.classification_status in troubled]
    words = await repo.troubles(db, organization, names) if names else {}
    return [of_entry(entry, words.get(entry.name)) for entry in entries]


async def _waiting(registry: Registry, organization: str, names: list[str] | None) -> list[Card]:
    db = registry.get(Database)
    since = registry.get(Clock).now_ms() - _FAILURES_SHOWN_MS
    images = await repo.on_their_way(
        db, organization, failed_since=since, names=names, limit=_MOST_WAITING
    )
    cards = []
    for image in images:
        failed = image.status is ingest_repo.Status.FAILED
        failure = await ingest_repo.failure(db, organization, image.id) if failed else None
        cards.append(of_image(image, failure["message"] if failure else None))
    return cards


async def _labels(db: Database, organization: str, wanted: Wanted) -> list[str]:
    known = await repo.labels(db, organization, _MOST_LABELS)
    return sorted({*known, wanted.label}) if wanted.label else known


async def _received(db: Database, organization: str, image_id: str | None) -> str | None:
    """The name of an image that is ours; an address can be made up."""
    image = await ingest_repo.find(db, image_id) if image_id else None
    return image.name if image and image.organization == organization else None


def _may_change(access: Access) -> bool:
    return access.caller.organizations[access.organization] >= Role.MEMBER
