"""How the instance is, in words, for whoever runs it."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.guard import AsOperator
from safelight.admin.health import repo
from safelight.admin.services import Engine
from safelight.http.frame import services
from safelight.infra.db import AWAY, Database
from safelight.infra.injected import Clock
from safelight.infra.metrics import Metrics
from safelight.infra.queue import watched
from safelight.infra.steady import measure_skew
from safelight.library.reconcile.reconcile import LibraryReconcile
from safelight.objects.notifications import repo as notifications
from safelight.objects.store import ObjectStore
from safelight.settings import Settings
from safelight.web.health.checks import Check, CheckState, HealthReadings, checks
from safelight.web.operations.read import disk
from safelight.web.rendering import Context, PagesDep

router = APIRouter(include_in_schema=False)

_LOOK_MS = 10_000
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class HealthPage(Context):
    template: ClassVar[str] = "health.html"
    title: str = "Operations"
    checks: list[Check]
    now: int
    look_again: ClassVar[int] = _LOOK_MS

    @property
    def wanting(self) -> list[Check]:
        return [one for one in self.checks if one.state is CheckState.LOOK]

    @property
    def others(self) -> list[Check]:
        return [one for one in self.checks if one.state is not CheckState.LOOK]


@router.get("/admin/health")
async def health_page(request: Request, caller: AsOperator, pages: PagesDep) -> Response:
    del caller
    find = services(request).get
    page = HealthPage(
        checks=checks(await _measured(request), find(Settings)), now=find(Clock).now_ms()
    )
    return await pages.render(request, page)


async def _measured(request: Request) -> HealthReadings:
    find = services(request).get
    db, engine, clock = find(Database), find(Engine), find(Clock)
    workers = await _asked(watched.workers(db)) or []
    waiting = await _asked(notifications.confirmations(db, clock.now_ms())) or []
    return HealthReadings(
        database=await _asked(repo.facts(db)),
        pool=len(db.pool),
        store=await _answers(find(ObjectStore).check()),
        engine=engine.healthy,
        workers=sum(worker.present for worker in workers),
        unprotected=engine.unprotected,
        skew=await _asked(measure_skew(db, clock, find(Metrics))),
        disk=await disk(find(Settings).ingest_path),
        differences=await _asked(find(LibraryReconcile).left()) or {},
        confirmations=len(waiting),
        forwarded="x-forwarded-for" in request.headers or "forwarded" in request.headers,
    )


async def _asked(question: Awaitable[T]) -> T | None:
    """None while what is asked is away."""
    try:
        return await question
    except AWAY:
        return None


async def _answers(question: Awaitable[object]) -> bool:
    try:
        await question
    except AWAY:
        return False
    return True
