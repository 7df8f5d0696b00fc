"""Asking for images and clips, following them while they are made, and finding them again."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from safelight.accounts.access import Caller, Role, authorize
from safelight.accounts.guard import Access, allow, allow_by_id, signed_in
from safelight.errors import NotFound
from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.cancel import Cancel
from safelight.generations.create import Create
from safelight.generations.lifecycle import Generation, Kind
from safelight.generations.models import list_of_models
from safelight.generations.providers.registry import Providers
from safelight.generations.request import MOST, Wanted, check_key
from safelight.generations.show import show_active, show_made, show_spending
from safelight.generations.stories import subject
from safelight.generations.tagging import Tagging
from safelight.generations.tags import clean_tag
from safelight.http.frame import provided
from safelight.http.paging import Cursors, PageRequest, page
from safelight.infra import activity
from safelight.infra.db import Database

router = APIRouter(tags=["generations"])

Db = Annotated[Database, provided(Database)]
CursorsDep = Annotated[Cursors, provided(Cursors)]
TaggingDep = Annotated[Tagging, provided(Tagging)]
Viewer = Annotated[Caller, allow_by_id(Role.VIEWER)]
Member = Annotated[Caller, allow_by_id(Role.MEMBER)]
_FOR_EVER = 2**62


class NewGeneration(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    model: str = Field(min_length=1, max_length=300)
    input: dict[str, Any]
    count: int = Field(1, ge=1, le=MOST)
    tags: list[str] = Field(default_factory=list)
    provider: str | None = None
    kind: Literal["image", "video"] = "image"

    def wanted(self) -> Wanted:
        kind = Kind(self.kind)
        return Wanted.of(self.model, self.input, self.count, self.tags, self.provider, kind)


@router.post("/generations", status_code=202, summary="Ask for images or clips")
async def create(
    body: NewGeneration,
    access: Annotated[Access, allow(Role.MEMBER)],
    service: Annotated[Create, provided(Create)],
    idempotency_key: Annotated[
        str | None, Header(description="The same key and body within a day: the same answer.")
    ] = None,
) -> Response:
    key = check_key(idempotency_key)
    actor = access.caller.as_actor()
    new_id = await service.accept(access.organization, body.wanted(), key, actor)
    return JSONResponse({"id": new_id}, 202, {"location": f"/generations/{new_id}"})


@router.get("/generations", summary="Finished generations, or those under way; newest first")
async def generations(
    access: Annotated[Access, allow(Role.VIEWER)],
    db: Db,
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

    def cursor_of(row: Generation | library.Made) -> str:
        return cursors.make(purpose, [row.created_at, row.id])

    if status == "active":
        active = await repo.page(db, organization, named, before, limit)
        return page(active, limit, show_active, cursor_of)
    made = await library.page_made(db, organization, status, named, before, limit)
    return page(made, limit, show_made, cursor_of)


@router.get("/generations/{generation_id}", summary="One generation, in flight or finished")
async def generation(generation_id: str, caller: Viewer, db: Db) -> dict[str, Any]:
    return await _shown(db, caller, generation_id)


@router.get("/generations/{generation_id}/history", summary="How a generation came to its state")
async def history(
    generation_id: str, caller: Viewer, db: Db, cursors: CursorsDep, wanted: PageRequest
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
)
async def cancel(
    generation_id: str,
    caller: Member,
    db: Db,
    service: Annotated[Cancel, provided(Cancel)],
) -> Response:
    await visible(db, caller, generation_id, Role.MEMBER)
    stopped = await service.cancel(generation_id, caller.as_actor())
    return JSONResponse(await _shown(db, caller, generation_id), 202 if stopped else 200)


@router.put("/generations/{generation_id}/tags/{tag:path}", status_code=204, summary="Put a tag")
async def put_tag(
    generation_id: str, tag: str, caller: Member, db: Db, tagging: TaggingDep
) -> None:
    organization = await visible(db, caller, generation_id, Role.MEMBER)
    await tagging.put_on_generation(organization, generation_id, clean_tag(tag))


@router.delete(
    "/generations/{generation_id}/tags/{tag:path}", status_code=204, summary="Drop a tag"
)
async def drop_tag(
    generation_id: str, tag: str, caller: Member, db: Db, tagging: TaggingDep
) -> None:
    organization = await visible(db, caller, generation_id, Role.MEMBER)
    await tagging.drop_from_generation(organization, generation_id, clean_tag(tag))


@router.get(
    "/api/models",
    dependencies=[signed_in()],
    summary="The providers this server has, and the built-in models",
)
async def models(providers: Annotated[Providers, provided(Providers)]) -> dict[str, Any]:
    return list_of_models(providers)


@router.get("/api/organizations/{org}/spending", summary="What generations cost")
async def spending(
    access: Annotated[Access, allow(Role.VIEWER)],
    db: Db,
    since: Annotated[int, Query(ge=0, description="Epoch milliseconds, inclusive.")] = 0,
    until: Annotated[int, Query(ge=0, description="Epoch milliseconds, exclusive.")] = _FOR_EVER,
) -> dict[str, Any]:
    return show_spending(await library.spending(db, access.organization, since, until))


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
    if active is not None and not active.status.over:
        return show_active(active)
    made = await library.find_made(db, generation_id)
    if made is None:
        raise NotFound
    return show_made(made)
