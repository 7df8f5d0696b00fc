"""What an organization may use and uses: for its admins to read, for operators to set."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from safelight.accounts.guard import AsAdmin, AsOperator
from safelight.accounts.repo import known_organizations
from safelight.errors import NotFound
from safelight.http.described import Described
from safelight.http.frame import ClockDep, DatabaseDep, provided
from safelight.infra.injected import iso
from safelight.quotas import repo
from safelight.quotas.answers import QuotasAnswer
from safelight.quotas.lifecycle import Meter, Quota
from safelight.quotas.limits import QuotaLimits

router = APIRouter(tags=["quotas"], route_class=Described)

Most = Annotated[int, Field(ge=0, le=2**60)] | None


class LimitsBody(BaseModel):
    """What is null or left out is the instance's limit; 0: no limit."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        json_schema_extra={"examples": [{"storedBytes": 53687091200, "uploadsPerMinute": 600}]},
    )

    stored_bytes: Most = None
    uploads_per_minute: Most = None
    generations_per_day: Most = None
    submissions_per_day: Most = None


@router.get(
    "/api/organizations/{org}/quotas",
    summary="What this organization may use, and uses",
    response_model=QuotasAnswer,
)
async def quotas(access: AsAdmin, db: DatabaseDep, clock: ClockDep) -> dict[str, Any]:
    return show(await repo.quotas(db, access.organization, clock.now_ms()))


@router.get(
    "/api/v1/admin/organizations/{organization}/quotas",
    summary="The same, for operators",
    response_model=QuotasAnswer,
)
async def quotas_of(
    organization: str, caller: AsOperator, db: DatabaseDep, clock: ClockDep
) -> dict[str, Any]:
    del caller
    if not await known_organizations(db, [organization]):
        raise NotFound
    return show(await repo.quotas(db, organization, clock.now_ms()))


@router.put(
    "/api/v1/admin/organizations/{organization}/quotas",
    summary="Set its limits",
    response_model=QuotasAnswer,
)
async def put_quotas(
    organization: str,
    body: LimitsBody,
    caller: AsOperator,
    limits: Annotated[QuotaLimits, provided(QuotaLimits)],
) -> dict[str, Any]:
    wanted = {meter: getattr(body, meter.value) for meter in Meter}
    return show(await limits.change(organization, wanted, caller.as_actor()))


def show(quotas: Iterable[Quota]) -> dict[str, Any]:
    return {
        to_camel(quota.meter): {
            "limit": quota.most,
            "own": quota.own,
            "used": quota.used,
            "resetsAt": None if quota.resets_at is None else iso(quota.resets_at),
        }
        for quota in quotas
    }
