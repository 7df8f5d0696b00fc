"""The library of artifacts: their list, and each at an address of its own."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.guard import Access, AsMember, AsViewer
from safelight.errors import InvalidRequest, NotFound, SafelightError
from safelight.generations.artifacts.deletion import ArtifactDeletion
from safelight.generations.lifecycle import Artifact
from safelight.generations.request import clean_tag
from safelight.generations.tagging import Tagging
from safelight.http.frame import provided, services
from safelight.http.paging import Cursors
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.injected import Ids
from safelight.settings import Settings
from safelight.submissions.submit import SubmissionRequest, Submit
from safelight.web.artifact.page import (
    ArtifactDeletePage,
    ArtifactGonePage,
    ArtifactPage,
    ArtifactsPage,
)
from safelight.web.artifact.read import ArtifactReads
from safelight.web.artifact.shown import ArtifactFilter, facts_of
from safelight.web.generate.shown import GenerationBand, made_picture
from safelight.web.image.page import LONGEST_TITLE, Rights
from safelight.web.pages.generate import reads_of, story_of
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)


def filter_from(
    org: str,
    tag: Annotated[str, Query(max_length=300)] = "",
    generation: Annotated[str, Query(max_length=64)] = "",
) -> ArtifactFilter:
    """A form sends its empty fields too; they ask for nothing."""
    if "\0" in generation:
        raise NotFound
    chosen = clean_tag(tag) if tag.strip() else None
    return ArtifactFilter(org, chosen, generation or None)


ChosenDep = Annotated[ArtifactFilter, Depends(filter_from)]


@router.get("/app/{org}/library")
async def artifacts_page(
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    wanted: ChosenDep,
    cursor: str | None = None,
) -> Response:
    reads, organization = _reads(request, access), access.organization
    _, newest = await feed.bounds(reads.db, organization)
    tiles, more = await reads.page(wanted, cursor)
    used = await reads.tags()
    if wanted.tag and wanted.tag not in used:
        used = {wanted.tag: 0, **used}
    tags = [
        (tag, count, ArtifactFilter(organization, tag).list, tag == wanted.tag)
        for tag, count in used.items()
    ]
    page = ArtifactsPage(
        after=newest,
        organization=organization,
        wanted=wanted,
        tiles=tiles,
        tags=tags,
        generation=await _band(request, access, wanted.generation),
        more=more,
        newest=cursor is None,
    )
    return await pages.render(request, page)


@router.get("/app/{org}/library/{artifact_id}")
async def artifact_page(
    artifact_id: str,
    request: Request,
    access: AsViewer,
    pages: PagesDep,
    wanted: ChosenDep,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> Response:
    return await pages.render(request, await _page(request, access, artifact_id, wanted, before))


@router.post("/app/{org}/library/{artifact_id}/tags")
async def tag_by_form(
    artifact_id: str,
    request: Request,
    access: AsMember,
    pages: PagesDep,
    tagging: Annotated[Tagging, provided(Tagging)],
    wanted: ChosenDep,
    add: Annotated[str, Form()] = "",
    remove: Annotated[str, Form()] = "",
) -> Response:
    found = await _found(request, access, artifact_id)
    try:
        if remove:
            tag = clean_tag(remove)
            await tagging.remove_from_artifact(access.organization, found.id, tag)
        else:
            await tagging.put_on_artifact(access.organization, found.id, clean_tag(add))
    except SafelightError as error:
        said = ("tags", error.message.removeprefix("tag: "))
        page = await _page(request, access, artifact_id, wanted, None, problem=said, typed=add)
        return await pages.render(request, page, error.status)
    return RedirectResponse(wanted.page_of(found.id) + "#tags", 303)


@router.post("/app/{org}/library/{artifact_id}/publish")
async def publish_by_form(
    artifact_id: str,
    request: Request,
    access: AsMember,
    pages: PagesDep,
    submissions: Annotated[Submit, provided(Submit)],
    wanted: ChosenDep,
    title: Annotated[str, Form()] = "",
) -> Response:
    """A form that is sent twice asks once."""
    found = await _found(request, access, artifact_id)
    try:
        asked = _asked(access, found, title.strip())
        if not await _reads(request, access).living(found.id):
            await submissions.submit(asked)
    except SafelightError as error:
        said = ("publish", error.message)
        page = await _page(request, access, artifact_id, wanted, None, problem=said, typed=title)
        return await pages.render(request, page, error.status)
    return RedirectResponse(wanted.page_of(found.id) + "#publish", 303)


@router.get("/app/{org}/library/{artifact_id}/delete")
async def confirm_delete(
    artifact_id: str, request: Request, access: AsMember, pages: PagesDep, wanted: ChosenDep
) -> Response:
    reads = _reads(request, access)
    found = await reads.find(artifact_id)
    if found is None:
        return await _gone(reads, wanted, artifact_id)
    (shown,) = await reads.listed([found], wanted)
    page = ArtifactDeletePage(
        organization=access.organization,
        made=shown.made,
        action=f"{wanted.base}/{found.id}/delete{wanted.query()}",
        back=shown.address,
    )
    return await pages.render(request, page)


@router.post("/app/{org}/library/{artifact_id}/delete")
async def delete_by_form(
    artifact_id: str,
    request: Request,
    access: AsMember,
    deletion: Annotated[ArtifactDeletion, provided(ArtifactDeletion)],
    wanted: ChosenDep,
) -> Response:
    reads = _reads(request, access)
    found = await reads.find(artifact_id)
    if found is None:
        return await _gone(reads, wanted, artifact_id)
    await deletion.delete(found, access.caller.as_actor())
    return RedirectResponse(wanted.list, 303)


async def _gone(reads: ArtifactReads, wanted: ArtifactFilter, artifact_id: str) -> Response:
    """Its page says so."""
    if not await reads.was_there(artifact_id):
        raise NotFound
    return RedirectResponse(wanted.page_of(artifact_id), 303)


def _asked(access: Access, artifact: Artifact, title: str) -> SubmissionRequest:
    if "\0" in title or len(title) > LONGEST_TITLE:
        raise InvalidRequest(f"A title has at most {LONGEST_TITLE} characters that can be read.")
    actor = access.caller.as_actor()
    return SubmissionRequest(access.organization, "artifact", artifact.id, title or None, actor)


def _reads(request: Request, access: Access) -> ArtifactReads:
    find = services(request).get
    originals = find(Settings).thumbnails == "off"
    return ArtifactReads(find(Database), find(Cursors), access.organization, originals)


async def _found(request: Request, access: Access, artifact_id: str) -> Artifact:
    found = await _reads(request, access).find(artifact_id)
    if found is None:
        raise NotFound
    return found


async def _band(
    request: Request, access: Access, generation_id: str | None
) -> GenerationBand | None:
    reads = reads_of(request, access)
    try:
        return await reads.band(await reads.one(generation_id)) if generation_id else None
    except NotFound:
        return None


async def _page(
    request: Request,
    access: Access,
    artifact_id: str,
    wanted: ArtifactFilter,
    before: int | None,
    *,
    problem: tuple[str, str] = ("", ""),
    typed: str = "",
) -> Context:
    reads, settings = _reads(request, access), services(request).get(Settings)
    # Before anything is read, so that whatever changes from here on is news to the page.
    _, newest = await feed.bounds(reads.db, access.organization)
    artifact = await reads.find(artifact_id)
    if artifact is None and not await reads.was_there(artifact_id):
        raise NotFound
    lines, is_more = await reads.lines(artifact_id, before)
    story = story_of(lines)
    if artifact is None:
        return ArtifactGonePage(
            after=newest, organization=access.organization, wanted=wanted, story=story
        )
    band = await _band(request, access, artifact.generation_id)
    newer, older = await reads.neighbours(artifact, wanted)
    prompt = band.prompt if band else ""
    return ArtifactPage(
        title=" ".join(prompt.split()) or "Artifact",
        after=newest,
        organization=access.organization,
        artifact=artifact,
        made=made_picture(artifact, prompt, originals=reads.originals),
        prompt=prompt,
        band=band,
        facts=facts_of(artifact),
        rights=Rights.of(access),
        submissions=await reads.submissions(artifact, lines),
        story=story,
        before=lines[-1].seq if is_more else None,
        newer=newer,
        older=older,
        wanted=wanted,
        public=settings.public_url or str(request.base_url).rstrip("/"),
        nonce=services(request).get(Ids).uuid4(),
        problem=problem,
        typed=typed,
    )
