"""Whether a process is up and can do its work, and what it counts: of servers, and of workers that
have a port for it."""

import asyncio
from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from safelight.accounts.guard import metrics_reader, open_to_everyone
from safelight.admin.answers import HealthAnswer, ReadyAnswer
from safelight.admin.scrape import Scrape
from safelight.admin.services import Engine
from safelight.http.described import Described
from safelight.http.frame import DatabaseDep, provided
from safelight.infra.db import AWAY
from safelight.objects.store import ObjectStore

router = APIRouter(route_class=Described)


@router.get(
    "/healthz",
    dependencies=[open_to_everyone],
    summary="The process is up",
    response_model=HealthAnswer,
)
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@router.get(
    "/readyz",
    dependencies=[open_to_everyone],
    summary="It can do its work",
    response_model=ReadyAnswer,
    responses={503: {"model": ReadyAnswer}},
)
async def readyz(
    db: DatabaseDep,
    store: Annotated[ObjectStore, provided(ObjectStore)],
    engine: Annotated[Engine, provided(Engine)],
) -> Response:
    database, there = await asyncio.gather(_answers(db.check()), _answers(store.check()))
    checks = {"database": database, "objectStore": there, "engine": engine.healthy}
    ready = all(checks.values())
    words = {name: "ok" if fine else "unavailable" for name, fine in checks.items()}
    children = {"lacking": engine.unprotected}
    return JSONResponse({"ready": ready, **words, "children": children}, 200 if ready else 503)


@router.get(
    "/metrics",
    dependencies=[metrics_reader],
    summary="Prometheus metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(scrape: Annotated[Scrape, provided(Scrape)]) -> Response:
    return Response(await scrape.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _answers(question: Awaitable[Any]) -> bool:
    try:
        await question
    except AWAY:
        return False
    return True
