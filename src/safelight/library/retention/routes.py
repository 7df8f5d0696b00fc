"""How long an organization keeps its originals: for its admins to read and to set."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from safelight.accounts.guard import AsAdmin
from safelight.http.described import Described
from safelight.http.frame import provided
from safelight.library.answers import RetentionAnswer
from safelight.library.retention.retention import RetentionLimits

router = APIRouter(tags=["library"], route_class=Described)

LimitsDep = Annotated[RetentionLimits, provided(RetentionLimits)]


class RetentionBody(BaseModel):
    """Null: for ever."""

    model_config = ConfigDict(extra="forbid")

    days: Annotated[int, Field(ge=1, le=36_500)] | None


@router.get(
    "/api/organizations/{org}/retention",
    summary="How long originals are kept",
    response_model=RetentionAnswer,
)
async def retention(access: AsAdmin, limits: LimitsDep) -> dict[str, Any]:
    return _show(await limits.of(access.organization), limits)


@router.put(
    "/api/organizations/{org}/retention",
    summary="Set how long originals are kept",
    response_model=RetentionAnswer,
)
async def put_retention(body: RetentionBody, access: AsAdmin, limits: LimitsDep) -> dict[str, Any]:
    """What is older goes within the next minutes, and cannot be brought back."""
    await limits.change(access.organization, body.days, access.caller.as_actor())
    return _show(body.days, limits)


def _show(days: int | None, limits: RetentionLimits) -> dict[str, Any]:
    return {"days": days, "keptBy": "bucket" if limits.telling else "safelight"}
