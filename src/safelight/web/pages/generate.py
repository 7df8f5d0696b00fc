"""Asking for pictures and clips, and seeing them come."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsMember, AsViewer
from safelight.errors import InvalidRequest, NotFound, SafelightError
from safelight.generations.create import Create
from safelight.generations.lifecycle import MediaKind
from safelight.generations.owner import Owner
from safelight.generations.providers.base import Provider
from safelight.generations.providers.registry import Providers
from safelight.http.frame import provided, services
from safelight.http.paging import Cursors
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.history import Activity
from safelight.infra.injected import Clock, Ids
from safelight.settings import Settings
from safelight.web.generate.form import (
    STUDIO,
    TypedGeneration,
    again_of,
    named,
    others_of,
    problem_of,
    typed_before,
    wanted_of,
)
from safelight.web.generate.page import (
    AskedGenerate,
    GeneratePage,
    GenerationPage,
    Vendor,
    base_of,
)
from safelight.web.generate.read import AnyGeneration, Generating
from safelight.web.generate.shown import vendor_in_words
from safelight.web.image.shown import StoryLine
from safelight.web.rendering import PagesDep
from safelight.web.sentences import sentence_of

router = APIRouter(include_in_schema=False)


def asked_from(
    origin: Annotated[str, Query(alias="from", max_length=64)] = "",
    seed: Annotated[str, Query(max_length=8)] = "",
    cursor: str | None = None,
) -> AskedGenerate:
    return AskedGenerate(origin, seed, cursor)


def typed_from(
    prompt: Annotated[str, Form()] = "",
    model: Annotated[str, Form()] = "",
    vendor_model: Annotated[str, Form()] = "",
    kind: Annotated[str, Form()] = MediaKind.IMAGE,
    count: Annotated[str, Form()] = "",
    seed: Annotated[str, Form()] = "",
    size: Annotated[str, Form()] = "",
    tags: Annotated[str, Form()] = "",
    nonce: Annotated[str, Form()] = "",
) -> TypedGeneration:
    return TypedGeneration(prompt, model, vendor_model, kind, count, seed, size, tags, nonce)


@router.get("/app/{org}/generate")
async def generate_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    asked: Annotated[AskedGenerate, Depends(asked_from)],
) -> Response:
    return await pages.render(request, await _page(request, access, asked))


@router.post("/app/{org}/generate")
async def generate_by_form(
    request: Request,
    access: AsMember,
    pages: PagesDep,
    create: Annotated[Create, provided(Create)],
    typed: Annotated[TypedGeneration, Depends(typed_from)],
    origin: Annotated[str, Form(alias="from", max_length=64)] = "",
) -> Response:
    """A form that is sent twice asks once."""
    before = await _before(request, access, origin)
    try:
        wanted, key = named(wanted_of(typed, others_of(before)), typed.nonce)
        actor = access.caller.as_actor()
        new_id = await create.accept(access.organization, wanted, key, actor)
    except SafelightError as error:
        where, words = problem_of(error)
        refused = await _page(
            request, access, AskedGenerate(origin), typed=typed, problems={where: words}
        )
        return await pages.render(request, refused, error.status)
    asked = AskedGenerate(new_id, "" if typed.seed.strip() else "new")
    return RedirectResponse(f"{base_of(access.organization)}{asked.query()}#{new_id}", 303)


@router.get("/app/{org}/generate/{generation_id}")
async def generation_page(
    generation_id: str,
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> Response:
    """One, wherever it is in the list."""
    reads = reads_of(request, access)
    _, newest = await feed.bounds(reads.db, access.organization)
    made = await reads.band(await reads.one(generation_id))
    lines, is_more = await reads.lines(generation_id, before)
    page = GenerationPage(
        title=" ".join(made.prompt.split()) or "Generation",
        after=newest,
        organization=access.organization,
        may=may(access),
        here=request.url.path,
        band=made,
        nonce=services(request).get(Ids).uuid4(),
        story=story_of(lines),
        before=lines[-1].seq if is_more else None,
        asked=before,
    )
    return await pages.render(request, page)


@router.post("/app/{org}/generate/{generation_id}/again")
async def generate_again(
    generation_id: str,
    request: Request,
    access: AsMember,
    create: Annotated[Create, provided(Create)],
    seed: Annotated[str, Form()] = "new",
    artifact: Annotated[str, Form(max_length=64)] = "",
    nonce: Annotated[str, Form()] = "",
) -> Response:
    """All of it, or that one artifact; with the seed it had, or with another."""
    reads = reads_of(request, access)
    before = await reads.one(generation_id)
    known, count = None, None
    if artifact:
        known, count = (await reads.artifact(artifact)).metadata.get("seed"), 1
    elif seed == "same":
        known = (await reads.band(before)).again_seed
    if seed == "same" and type(known) is not int:
        raise InvalidRequest("The seed of this is not known, so that it cannot be made again.")
    wanted, key = named(again_of(before, known if seed == "same" else None, count=count), nonce)
    new_id = await create.accept(access.organization, wanted, key, access.caller.as_actor())
    return RedirectResponse(f"{base_of(access.organization)}#{new_id}", 303)


@router.post("/app/{org}/generate/{generation_id}/cancel")
async def cancel_by_form(
    generation_id: str,
    request: Request,
    access: AsMember,
    owner: Annotated[Owner, provided(Owner)],
) -> Response:
    """What is made by then stays; one that has ended by itself has."""
    await reads_of(request, access).one(generation_id)
    await owner.cancel(access.organization, generation_id, access.caller.as_actor())
    return RedirectResponse(f"{base_of(access.organization)}#{quote(generation_id, safe='')}", 303)


def story_of(lines: Sequence[Activity]) -> list[StoryLine]:
    """Without what only those want to know who look closer."""
    told = [StoryLine(line.seq, line.at, sentence_of(line)) for line in lines]
    return [line for line in told if not line.sentence.inner]


def reads_of(request: Request, access: Access) -> Generating:
    find = services(request).get
    originals = find(Settings).thumbnails == "off"
    return Generating(find(Database), find(Cursors), access.organization, originals)


def may(access: Access) -> bool:
    return access.caller.organizations[access.organization] >= Role.MEMBER


async def _before(request: Request, access: Access, origin: str) -> AnyGeneration | None:
    """What the form begins as. One that is gone leaves it empty."""
    if not origin or "\0" in origin:
        return None
    try:
        return await reads_of(request, access).one(origin)
    except NotFound:
        return None


async def _page(
    request: Request,
    access: Access,
    asked: AskedGenerate,
    *,
    typed: TypedGeneration | None = None,
    problems: Mapping[str, str] | None = None,
) -> GeneratePage:
    registry, reads = services(request), reads_of(request, access)
    # Before anything is read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(reads.db, access.organization)
    before = await _before(request, access, asked.origin)
    if typed is None:
        seeded = asked.seed != "new"
        typed = typed_before(before, seeded=seeded) if before else TypedGeneration()
    typed = replace(typed, nonce=registry.get(Ids).uuid4())
    bands, more = await reads.page(asked.cursor)
    now = registry.get(Clock).now_ms()
    return GeneratePage(
        after=newest,
        organization=access.organization,
        may=may(access),
        here=base_of(access.organization) + asked.query(),
        typed=typed,
        others=others_of(before),
        origin=before.id if before else "",
        vendors=[_vendor(one) for one in registry.get(Providers).offered if one.name != STUDIO],
        bands=bands,
        more=more,
        newest=asked.cursor is None,
        left=await reads.left(now),
        spent=await reads.spent(now),
        problems=problems or {},
    )


def _vendor(provider: Provider) -> Vendor:
    return Vendor(provider.name, vendor_in_words(provider.name), provider.hint)
