"""One image at an address of its own: its picture, what is known of it, and what may be done."""

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.guard import Access, AsAdmin, AsMember, AsViewer
from safelight.classification.similar.similar import Similar
from safelight.errors import Conflict, InvalidRequest, NotFound, SafelightError
from safelight.http.frame import provided, services
from safelight.infra import feed
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.queue.dead_letters import NotDead, TwinAlive
from safelight.infra.queue.queue import Queue
from safelight.library.entry import RunStatus
from safelight.settings import Settings
from safelight.submissions.submit import SubmissionRequest, Submit
from safelight.web.gallery.asked import FilterDep
from safelight.web.gallery.card import GalleryFilter, of_entry
from safelight.web.image.page import LONGEST_TITLE, AlikeTile, AskedImage, ImagePage, Rights
from safelight.web.image.read import OneImage, alike, dead_letter
from safelight.web.image.shown import (
    FoundImage,
    address,
    labels,
    picture_of,
    standing,
    story,
)
from safelight.web.rendering import PagesDep

router = APIRouter(include_in_schema=False)


class ReplacedMeanwhile(Conflict):
    """Another image has this name by now. Look at that one first."""


def asked_from(
    wanted: FilterDep,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    details: bool = False,
) -> AskedImage:
    return AskedImage(wanted, before, details)


AskedDep = Annotated[AskedImage, Depends(asked_from)]


@dataclass(frozen=True, slots=True)
class TypedName:
    """Of a form: which upload of which name its buttons were shown for."""

    name: str
    marker: str


def typed_from(name: Annotated[str, Form()] = "", marker: Annotated[str, Form()] = "") -> TypedName:
    if not name or "\0" in name + marker:
        raise InvalidRequest("Say which image.")
    return TypedName(name, marker)


TypedDep = Annotated[TypedName, Depends(typed_from)]


@router.get("/app/{org}/images/{image_id}")
async def image_page(
    image_id: str, request: Request, access: AsViewer, pages: PagesDep, asked: AskedDep
) -> Response:
    looking = _reads(request, access).by_id(image_id)
    return await pages.render(request, await _page(request, access, looking, asked))


@router.get("/app/{org}/images")
async def image_page_by_name(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    asked: AskedDep,
    name: Annotated[str, Query(max_length=1024)],
) -> Response:
    """Of what has the name, or had it last: with an id, its page is below that."""
    if "\0" in name:
        raise NotFound
    found = await _reads(request, access).by_name(name)
    if found.image_id is not None:
        return RedirectResponse(_address(access, found, asked.wanted), 303)
    looking = _reads(request, access).by_name(name)
    return await pages.render(request, await _page(request, access, looking, asked))


@router.post("/app/{org}/images/publish")
async def publish_by_form(
    request: Request,
    access: AsMember,
    pages: PagesDep,
    submissions: Annotated[Submit, provided(Submit)],
    typed: TypedDep,
    asked: AskedDep,
    title: Annotated[str, Form()] = "",
) -> Response:
    """A form that is sent twice asks once."""
    reads = _reads(request, access)
    found = await reads.by_name(typed.name)
    try:
        wanted = _wanted(access, found, typed, title.strip())
        if not await reads.is_submitted(found):
            await submissions.submit(wanted)
    except SafelightError as error:
        refused = replace(asked, problem=error.message, typed=title)
        page = await _page(request, access, reads.by_name(typed.name), refused)
        return await pages.render(request, page, error.status)
    return RedirectResponse(_address(access, found, asked.wanted) + "#publish", 303)


@router.post("/app/{org}/images/retry")
async def retry_by_form(
    request: Request, access: AsAdmin, typed: TypedDep, asked: AskedDep
) -> Response:
    """What was given up is tried again. Somebody may have been quicker: then it is already."""
    found, queue = await _reads(request, access).by_name(typed.name), services(request).get(Queue)
    letter = await dead_letter(queue, services(request).get(Units), access.organization, found)
    if letter is not None:
        actor, organization = access.caller.as_actor(), access.organization
        with suppress(NotDead, TwinAlive):
            await queue.dead_letters.redrive(letter.id, organization=organization, actor=actor)
    return RedirectResponse(_address(access, found, asked.wanted), 303)


def _wanted(access: Access, found: FoundImage, typed: TypedName, title: str) -> SubmissionRequest:
    if found.marker != typed.marker:
        raise ReplacedMeanwhile
    if "\0" in title or len(title) > LONGEST_TITLE:
        raise InvalidRequest(f"A title has at most {LONGEST_TITLE} characters that can be read.")
    actor = access.caller.as_actor()
    return SubmissionRequest(access.organization, "upload", found.name, title or None, actor)


def _reads(request: Request, access: Access) -> OneImage:
    return OneImage(services(request).get(Database), access.organization)


def _address(access: Access, found: FoundImage, wanted: GalleryFilter) -> str:
    return address(access.organization, found.image_id, found.name, wanted)


async def _page(
    request: Request, access: Access, looking: Awaitable[FoundImage], asked: AskedImage
) -> ImagePage:
    registry, reads = services(request), _reads(request, access)
    settings, organization = registry.get(Settings), access.organization
    # Before anything is read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(reads.db, organization)
    found, rights = await looking, Rights.of(access)
    lines, is_more = await reads.lines(found, asked.before)
    made = await reads.submissions(found, lines)
    newer, older = await reads.neighbours(found, asked.wanted)
    tiles, words = await _alike(request, found, originals=settings.thumbnails == "off")
    return ImagePage(
        title=found.name,
        after=newest,
        organization=organization,
        found=found,
        standing=standing(found),
        rights=rights,
        picture=picture_of(organization, found, originals=settings.thumbnails == "off"),
        labels=labels(organization, found.entry),
        uploader=await reads.uploader(found),
        renditions=await reads.renditions(found.entry),
        submissions=made,
        story=story(
            organization, found, lines, [one.submission.id for one in made], inner=asked.details
        ),
        before=lines[-1].seq if is_more else None,
        details=asked.details,
        alike=tiles,
        alike_words=words,
        newer=newer,
        older=older,
        wanted=asked.wanted,
        redrivable=rights.redrive and await _redrivable(request, organization, found),
        public=settings.public_url or str(request.base_url).rstrip("/"),
        problem=asked.problem,
        typed=asked.typed,
    )


async def _alike(
    request: Request, found: FoundImage, *, originals: bool
) -> tuple[list[AlikeTile], str]:
    entry = found.entry
    if entry is None or entry.classification_status is not RunStatus.DONE:
        return [], ""
    near, words = await alike(services(request).get(Similar), entry)
    tiles = [
        AlikeTile(
            of_entry(one, originals=originals), address(one.organization, one.image_id, one.name)
        )
        for one in near
    ]
    return tiles, words


async def _redrivable(request: Request, organization: str, found: FoundImage) -> bool:
    """Looked for only where something is not as it should be."""
    if found.entry is not None and found.entry.classification_status is RunStatus.DONE:
        return False
    registry = services(request)
    queue, units = registry.get(Queue), registry.get(Units)
    return await dead_letter(queue, units, organization, found) is not None
