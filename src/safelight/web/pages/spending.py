"""What an organization's generations have cost in the last 30 days."""

from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.guard import AsViewer
from safelight.generations.artifacts import repo
from safelight.http.frame import ClockDep, DatabaseDep
from safelight.web.rendering import PagesDep
from safelight.web.settings.frame import SettingsPage
from safelight.web.settings.spent import DAY_MS, DAYS, Spent, first_day, summed

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, kw_only=True)
class SpendingPage(SettingsPage):
    template: ClassVar[str] = "settings_spending.html"
    section: ClassVar[str] = "spending"
    spent: Spent
    days: int = DAYS


@router.get("/app/{org}/settings/spending")
async def spending_page(
    request: Request, access: AsViewer, pages: PagesDep, db: DatabaseDep, clock: ClockDep
) -> Response:
    now, organization = clock.now_ms(), access.organization
    found = await repo.spending_by_day(db, organization, first_day(now) * DAY_MS)
    page = SpendingPage(
        organization=organization,
        role=access.caller.organizations[organization],
        spent=summed(found, now),
    )
    return await pages.render(request, page)
