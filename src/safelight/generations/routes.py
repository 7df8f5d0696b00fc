"""Asking for images and clips, following them while they are made, and finding them again. And
where providers call when they are done: there the token in the address is the credential."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import (
    AsMember,
    AsViewer,
    MemberById,
    ViewerById,
    open_to_everyone,
    signed_in,
)
from safelight.errors import InvalidJson, NotFound
from safelight.generations import repo
from safelight.generations.answers import (
    GenerationAnswer,
    ModelsAnswer,
    OrderedAnswer,
    SpendingAnswer,
)
from safelight.generations.artifacts import repo as library
from safelight.generations.create import Create
from safelight.generations.lifecycle import FinishedGeneration, Generation, MediaKind, subject
from safelight.generations.owner import Owner
from safelight.generations.providers.registry import Providers
from safelight.generations.request import MOST, GenerationRequest, check_key, clean_tag
from safelight.generations.show import show_active, show_finished, show_models, show_spending
from safelight.generations.tagging import Tagging
from safelight.generations.webhooks import Webhooks
from safelight.http.described import Described, HistoryItem, PageOf
from safelight.http.frame import DatabaseDep, ReadsDep, provided
from safelight.http.paging import LARGEST, CursorsDep, PageRequest, page
from safelight.infra import activity
from safelight.infra.db import Database

router = APIRouter(tags=["generations"], route_class=Described)

TaggingDep = Annotated[Tagging, provided(Tagging)]
Moment = Annotated[int, Field(ge=0, le=LARGEST)]


class NewGeneration(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "model": "studio/horizon",
                    "input": {"prompt": "a harbour at dawn", "width": 1024, "height": 768},
                    "count": 2,
                    "tags": ["spring"],
                }
            ]
        },
    )

    model: str = Field(min_length=1, max_length=300)
    input: dict[str, Any]
    count: int = Field(1, ge=1, le=MOST)
    tags: list[str] = Field(default_factory=list)
    provider: str | None = None
    kind: Literal["image", "video"] = "image"

    def wanted(self) -> GenerationRequest:
        kind = MediaKind(self.kind)
        return GenerationRequest.of(
            self.model, self.input, self.count, self.tags, self.provider, kind
        )


@router.post(
    "/generations", status_code=202, summary="Ask for images or clips", response_model=OrderedAnswer
)
async def create(
    body: NewGeneration,
    access: AsMember,
    service: Annotated[Create, provided(Create)],
    idempotency_key: Annotated[
        str | None, Header(description="The same key and body within a day: the same answer.")
    ] = None,
) -> Response:
    key = check_key(idempotency_key)
    actor = access.caller.as_actor()
    new_id = await service.accept(access.organization, body.wanted(), key, actor)
    return JSONResponse({"id": new_id}, 202, {"location": f"/generations/{new_id}"})


@router.get(
    "/generations",
    summary="Finished generations, or those under way; newest first",
    response_model=PageOf[GenerationAnswer],
)
async def generations(
    access: AsViewer,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    tag: Annotated[str | None, Query(description="Exactly this tag.")] = None,
    status: Annotated[
        Literal["active", "ready", "failed"] | None, Query(description="Default: finished ones.")
    ] = None,
) -> dict[str, Any]:
    limit, cursor = wanted
    organization, named = access.organization, None if tag is None else clean_tag(tag)
    purpose = f"generations:{organization}:{named}:{status}"
    key = cursors.read(purpose, cursor)
    before = (key[0], key[1]) if key else None
    found: list[Generation | FinishedGeneration] = []
    if status == "active":
        found += await repo.page(db, organization, named, before, limit)
    else:
        found += await library.page_finished(db, organization, status, named, before, limit)
    counts = await library.counts(db, [row.id for row in found])

    def show(row: Generation | FinishedGeneration) -> dict[str, Any]:
        return _show(row, counts[row.id])

    def cursor_of(row: Generation | FinishedGeneration) -> str:
        return cursors.make(purpose, [row.created_at, row.id])

    return page(found, limit, show, cursor_of)


@router.get(
    "/generations/{generation_id}",
    summary="One generation, in flight or finished",
    response_model=GenerationAnswer,
)
async def generation(generation_id: str, caller: ViewerById, db: DatabaseDep) -> dict[str, Any]:
    return await _shown(db, caller, generation_id)


@router.get(
    "/generations/{generation_id}/history",
    summary="How a generation came to its state",
    response_model=PageOf[HistoryItem],
)
async def history(
    generation_id: str,
    caller: ViewerById,
    db: ReadsDep,
    cursors: CursorsDep,
    wanted: PageRequest,
) -> dict[str, Any]:
    organization = await visible(db, caller, generation_id, Role.VIEWER)
    limit, cursor = wanted
    about = subject(generation_id)
    after = (cursors.read(about, cursor) or [0])[0]
    rows = await activity.of_subject(db, organization, about, after=after, limit=limit)
    return page(rows, limit, lambda row: row.as_history(), lambda r: cursors.make(about, [r.seq]))


@router.post(
    "/generations/{generation_id}/cancel",
    status_code=202,
    summary="Stop what can be stopped; finished artifacts stay",
    response_model=GenerationAnswer,
    responses={200: {"model": GenerationAnswer}},
)
async def cancel(
    generation_id: str,
    caller: MemberById,
    db: DatabaseDep,
    owner: Annotated[Owner, provided(Owner)],
) -> Response:
    organization = await visible(db, caller, generation_id, Role.MEMBER)
    stopped = await owner.cancel(organization, generation_id, caller.as_actor())
    return JSONResponse(await _shown(db, caller, generation_id), 202 if stopped else 200)


@router.put("/generations/{generation_id}/tags/{tag:path}", status_code=204, summary="Put a tag")
async def put_tag(
    generation_id: str, tag: str, caller: MemberById, db: DatabaseDep, tagging: TaggingDep
) -> None:
    organization = await visible(db, caller, generation_id, Role.MEMBER)
    await tagging.put_on_generation(organization, generation_id, clean_tag(tag))


@router.delete(
    "/generations/{generation_id}/tags/{tag:path}", status_code=204, summary="Drop a tag"
)
async def drop_tag(
    generation_id: str, tag: str, caller: MemberById, db: DatabaseDep, tagging: TaggingDep
) -> None:
    organization = await visible(db, caller, generation_id, Role.MEMBER)
    await tagging.remove_from_generation(organization, generation_id, clean_tag(tag))


@router.get(
    "/api/models",
    dependencies=[signed_in()],
    summary="The providers this server has, and the built-in models",
    response_model=ModelsAnswer,
)
async def models(providers: Annotated[Providers, provided(Providers)]) -> dict[str, Any]:
    return show_models(providers)


@router.get(
    "/api/organizations/{org}/spending",
    summary="What generations cost",
    response_model=SpendingAnswer,
)
async def spending(
    access: AsViewer,
    db: DatabaseDep,
    since: Annotated[Moment, Query(description="Epoch milliseconds, inclusive.")] = 0,
    until: Annotated[Moment, Query(description="Epoch milliseconds, exclusive.")] = LARGEST,
) -> dict[str, Any]:
    return show_spending(await library.spending(db, access.organization, since, until))


@router.post(
    "/webhooks/{provider}",
    dependencies=[open_to_everyone],
    summary="For providers: a task is done, or is not going to be",
    responses={200: {"description": "Empty, whatever came of it."}},
)
async def webhook(
    provider: str,
    request: Request,
    webhooks: Annotated[Webhooks, provided(Webhooks)],
    generation_id: Annotated[str, Query()] = "",
    token: Annotated[str, Query()] = "",
    task: Annotated[str | None, Query(description="The artifact this is about.")] = None,
) -> Response:
    known = webhooks.known(provider, generation_id, token)
    if known is None:
        raise NotFound
    body = await request.body()
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidJson from error
    headers = dict(request.headers)
    if not await webhooks.receive(known, generation_id, task, headers, body, payload):
        raise NotFound
    return Response(status_code=200)


async def visible(db: Database, caller: Caller, generation_id: str, role: Role) -> str:
    """The organization of a generation the caller may see."""
    organization = await repo.organization_of(db, generation_id)
    if organization is None:
        raise NotFound
    authorize(caller, organization, role)
    return organization


async def _shown(db: Database, caller: Caller, generation_id: str) -> dict[str, Any]:
    await visible(db, caller, generation_id, Role.VIEWER)
    active = await repo.find(db, generation_id)
    in_flight = active is not None and not active.status.over
    found = active if in_flight else await library.find_finished(db, generation_id)
    if found is None:
        raise NotFound
    counts = await library.counts(db, [generation_id])  # after it: none is missing of what it tells
    return _show(found, counts[generation_id])


def _show(found: Generation | FinishedGeneration, artifacts: int) -> dict[str, Any]:
    if isinstance(found, Generation):
        return show_active(found, artifacts)
    return show_finished(found, artifacts)
