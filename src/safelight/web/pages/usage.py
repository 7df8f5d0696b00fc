"""What an organization may use and uses, and how long it keeps its originals. Its admins change how
long, and operators change its limits."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Caller
from safelight.accounts.guard import AsAdmin, AsOperator, AsViewer
from safelight.accounts.repo import known_organizations
from safelight.errors import InvalidRequest, NotFound, SafelightError
from safelight.http.frame import DatabaseDep, provided, services
from safelight.infra.db import Database
from safelight.infra.injected import Clock
from safelight.library.retention.lifecycle import in_words
from safelight.library.retention.retention import RetentionLimits
from safelight.quotas import repo
from safelight.quotas.lifecycle import Meter
from safelight.quotas.limits import QuotaLimits
from safelight.web.gauges import Gauge, gauges
from safelight.web.rendering import Pages
from safelight.web.settings.amounts import limit_in, typed
from safelight.web.settings.frame import SettingsPage, saved

router = APIRouter(include_in_schema=False)

_MOST_DAYS = 36_500
_FIELDS = {
    Meter.STORED_BYTES: "Stored",
    Meter.UPLOADS: "Uploads per minute",
    Meter.GENERATIONS: "Generations per day",
    Meter.SUBMISSIONS: "Submissions per day",
}


@dataclass(frozen=True, slots=True)
class LimitField:
    name: str
    label: str
    value: str


@dataclass(frozen=True, kw_only=True)
class UsagePage(SettingsPage):
    template: ClassVar[str] = "settings_usage.html"
    section: ClassVar[str] = "usage"
    operator: bool
    gauges: list[Gauge]
    limits: list[LimitField]
    kept: str | None
    days: str
    most_days: int = _MOST_DAYS
    by_bucket: bool


@dataclass(frozen=True, slots=True)
class TypedLimits:
    stored_bytes: str
    uploads_per_minute: str
    generations_per_day: str
    submissions_per_day: str


def typed_limits(
    stored_bytes: Annotated[str, Form()] = "",
    uploads_per_minute: Annotated[str, Form()] = "",
    generations_per_day: Annotated[str, Form()] = "",
    submissions_per_day: Annotated[str, Form()] = "",
) -> TypedLimits:
    return TypedLimits(stored_bytes, uploads_per_minute, generations_per_day, submissions_per_day)


@router.get("/app/{org}/settings/usage")
async def usage_page(request: Request, access: AsViewer, saved: bool = False) -> Response:
    return await _render(request, access.caller, access.organization, saved=saved)


@router.post("/app/{org}/settings/usage")
async def change_retention(
    request: Request,
    access: AsAdmin,
    limits: Annotated[RetentionLimits, provided(RetentionLimits)],
    days: Annotated[str, Form()] = "",
) -> Response:
    organization = access.organization
    try:
        await limits.change(organization, _days(days), access.caller.as_actor())
    except SafelightError as error:
        return await _render(request, access.caller, organization, problem=error, days=days)
    return saved(organization, "usage")


@router.post("/admin/organizations/{organization}/quotas")
async def change_quotas(
    organization: str,
    request: Request,
    caller: AsOperator,
    db: DatabaseDep,
    limits: Annotated[QuotaLimits, provided(QuotaLimits)],
    given: Annotated[TypedLimits, Depends(typed_limits)],
) -> Response:
    if "\0" in organization or not await known_organizations(db, [organization]):
        raise NotFound
    try:
        wanted = {meter: limit_in(meter, getattr(given, meter.value)) for meter in Meter}
    except InvalidRequest as error:
        if organization not in caller.organizations:
            raise
        return await _render(request, caller, organization, problem=error, given=given)
    await limits.change(organization, wanted, caller.as_actor())
    if organization not in caller.organizations:
        return RedirectResponse("/admin/queue", 303)
    return saved(organization, "usage")


def _days(text: str) -> int | None:
    """Empty: for ever."""
    if not text.strip():
        return None
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0  # noqa: PLR2004
    if not 1 <= days <= _MOST_DAYS:
        raise InvalidRequest(f"Give a number of days from 1 to {_MOST_DAYS:,}, or nothing.")
    return days


async def _render(
    request: Request,
    caller: Caller,
    organization: str,
    *,
    saved: bool = False,
    problem: SafelightError | None = None,
    days: str | None = None,
    given: TypedLimits | None = None,
) -> Response:
    registry = services(request)
    now, retention = registry.get(Clock).now_ms(), registry.get(RetentionLimits)
    quotas = await repo.quotas(registry.get(Database), organization, now)
    kept = await retention.of(organization)
    stands = {quota.meter: typed(quota) for quota in quotas}
    fields = [
        LimitField(meter, label, getattr(given, meter.value) if given else stands[meter])
        for meter, label in _FIELDS.items()
    ]
    page = UsagePage(
        organization=organization,
        role=caller.organizations[organization],
        saved=saved,
        problem=problem.message if problem else None,
        operator=caller.operator,
        gauges=gauges(quotas),
        limits=fields,
        kept=in_words(kept) if kept else None,
        days=days if days is not None else str(kept or ""),
        by_bucket=retention.telling,
    )
    status = problem.status if problem else 200
    return await registry.get(Pages).render(request, page, status)
