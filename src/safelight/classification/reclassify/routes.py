"""Having a library classified anew, and how far that has come."""

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from safelight.accounts.guard import AsAdmin
from safelight.classification.reclassify.answers import (
    CountAnswer,
    ReclassificationAnswer,
    ReclassifyAnswer,
)
from safelight.classification.reclassify.lifecycle import Reclassification, ReclassifyFilter
from safelight.classification.reclassify.reclassify import Reclassify
from safelight.http.described import Described
from safelight.http.frame import provided
from safelight.infra.injected import iso

router = APIRouter(
    tags=["library"], prefix="/api/organizations/{org}/reclassify", route_class=Described
)

ReclassifyDep = Annotated[Reclassify, provided(Reclassify)]
_Some = Annotated[str | None, Field(min_length=1, max_length=200)]


class NewReclassification(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"label": "lakeside", "dryRun": True}]},
    )

    label: _Some = None
    notBy: _Some = None  # noqa: N815 - as it is sent
    dryRun: bool = False  # noqa: N815


@router.post(
    "",
    status_code=202,
    summary="Classify images anew, below new uploads",
    description="All, or those with this `label`, or those labelled by another model than `notBy` "
    "(with or without its weights, as in `classificationModel`). Each keeps its label until it has "
    "the next one. With `dryRun`, 200 and how many there are.",
    response_model=ReclassifyAnswer,
    responses={200: {"model": CountAnswer, "description": "A `dryRun`: how many there are."}},
)
async def reclassify(
    body: NewReclassification, access: AsAdmin, service: ReclassifyDep
) -> Response:
    wanted = ReclassifyFilter(body.label, body.notBy)
    if body.dryRun:
        return JSONResponse({"total": await service.count(access.organization, wanted)})
    found = await service.ask(access.organization, wanted, access.caller.as_actor())
    location = f"/api/organizations/{access.organization}/reclassify/{found.id}"
    return JSONResponse({"id": found.id, "total": found.total}, 202, {"location": location})


@router.get(
    "/{reclassification_id}", summary="How far it has come", response_model=ReclassificationAnswer
)
async def reclassification(
    reclassification_id: str, access: AsAdmin, service: ReclassifyDep
) -> dict[str, Any]:
    return _show(await service.find(access.organization, reclassification_id))


@router.post(
    "/{reclassification_id}/cancel",
    summary="Begin no more of it; what has begun ends",
    response_model=ReclassificationAnswer,
)
async def cancel(
    reclassification_id: str, access: AsAdmin, service: ReclassifyDep
) -> dict[str, Any]:
    actor = access.caller.as_actor()
    return _show(await service.cancel(access.organization, reclassification_id, actor))


def _show(found: Reclassification) -> dict[str, Any]:
    return {
        "id": found.id,
        "status": found.status,
        "label": found.label,
        "notBy": found.not_by,
        "askedBy": found.asked_by,
        "total": found.total,
        "done": found.done,
        "failed": found.failed,
        "skipped": found.skipped,
        "remaining": found.remaining,
        "createdAt": iso(found.created_at),
        "finishedAt": None if found.finished_at is None else iso(found.finished_at),
    }
