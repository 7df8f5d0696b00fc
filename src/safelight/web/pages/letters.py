"""An organization's own dead letters, beside what happens in it: for its admins."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.guard import Access, AsAdmin
from safelight.errors import SafelightError
from safelight.http.frame import QueueDep, services
from safelight.http.paging import LARGEST, Cursors
from safelight.infra.queue.queue import Queue
from safelight.web.letters.read import LetterReads, WhichDep, WhichLetters
from safelight.web.letters.shown import Letters, settled_in_words
from safelight.web.rendering import Context, Pages, PagesDep

router = APIRouter(include_in_schema=False)

_LOOK_MS = 5000
Count = Annotated[int | None, Query(ge=0, le=LARGEST)]


@dataclass(frozen=True, kw_only=True)
class LettersPage(Context):
    template: ClassVar[str] = "letters.html"
    title: str = "Activity"
    organization: str
    letters: Letters
    which: WhichLetters
    problem: str | None = None
    settled: str | None = None
    look_again: ClassVar[int] = _LOOK_MS

    @property
    def stream(self) -> str:
        return f"/app/{self.organization}/inspector"

    @property
    def base(self) -> str:
        return f"{self.stream}/dead-letters"


@router.get("/app/{org}/inspector/dead-letters")
async def letters_page(
    request: Request,
    access: AsAdmin,
    pages: PagesDep,
    which: WhichDep,
    redriven: Count = None,
    discarded: Count = None,
    remaining: Count = 0,
) -> Response:
    said = settled_in_words(redriven, discarded, remaining or 0)
    return await pages.render(request, await _page(request, access, which, settled=said))


@router.post("/app/{org}/inspector/dead-letters/redrive")
async def redrive_own_by_form(access: AsAdmin, queue: QueueDep, which: WhichDep) -> Response:
    done = await queue.dead_letters.redrive_all(
        kind=which.kind,
        code=which.code,
        organization=access.organization,
        actor=access.caller.as_actor(),
    )
    return _back(access, f"?redriven={done.settled}&remaining={done.remaining}")


@router.post("/app/{org}/inspector/dead-letters/discard")
async def discard_own_by_form(access: AsAdmin, queue: QueueDep, which: WhichDep) -> Response:
    done = await queue.dead_letters.discard_all(
        kind=which.kind,
        code=which.code,
        organization=access.organization,
        actor=access.caller.as_actor(),
    )
    return _back(access, f"?discarded={done.settled}&remaining={done.remaining}")


@router.post("/app/{org}/inspector/dead-letters/{job_id}/redrive")
async def redrive_one_own(
    job_id: int, request: Request, access: AsAdmin, pages: PagesDep, queue: QueueDep
) -> Response:
    verb = queue.dead_letters.redrive(
        job_id, organization=access.organization, actor=access.caller.as_actor()
    )
    return await _done(request, access, pages, verb)


@router.post("/app/{org}/inspector/dead-letters/{job_id}/discard")
async def discard_one_own(
    job_id: int, request: Request, access: AsAdmin, pages: PagesDep, queue: QueueDep
) -> Response:
    verb = queue.dead_letters.discard(
        job_id, organization=access.organization, actor=access.caller.as_actor()
    )
    return await _done(request, access, pages, verb)


async def _done(
    request: Request, access: Access, pages: Pages, verb: Awaitable[object]
) -> Response:
    try:
        await verb
    except SafelightError as error:
        page = await _page(request, access, WhichLetters(), problem=error.message)
        return await pages.render(request, page, error.status)
    return _back(access)


def _back(access: Access, query: str = "") -> Response:
    return RedirectResponse(f"/app/{access.organization}/inspector/dead-letters{query}", 303)


async def _page(
    request: Request,
    access: Access,
    which: WhichLetters,
    *,
    problem: str | None = None,
    settled: str | None = None,
) -> LettersPage:
    registry, organization = services(request), access.organization
    reads = LetterReads(
        registry.get(Queue), registry.get(Cursors), organization, access.caller.organizations
    )
    return LettersPage(
        organization=organization,
        letters=await reads.all(which),
        which=which,
        problem=problem,
        settled=settled,
    )
