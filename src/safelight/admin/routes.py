"""What the person who runs this looks at: health, readiness, metrics, the API's description."""

from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from safelight.accounts.access import Caller
from safelight.accounts.describe import describe
from safelight.accounts.guard import guarded_routes, metrics_reader, open_to_everyone, signed_in
from safelight.admin.engine import Engine
from safelight.http.registry import provided
from safelight.infra.db import AWAY, Database
from safelight.infra.metrics import Metrics
from safelight.objects.store import ObjectStore

router = APIRouter(tags=["operator"])


@router.get("/healthz", dependencies=[open_to_everyone], summary="The process is up")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz", dependencies=[open_to_everyone], summary="It can do its work")
async def readyz(
    db: Annotated[Database, provided(Database)],
    store: Annotated[ObjectStore, provided(ObjectStore)],
    engine: Annotated[Engine, provided(Engine)],
) -> Response:
    checks = {
        "database": await _answers(db.fetchval("SELECT true")),
        "objectStore": await _answers(store.check()),
        "engine": engine.healthy,
    }
    ready = all(checks.values())
    words = {name: "ok" if fine else "unavailable" for name, fine in checks.items()}
    return JSONResponse({"ready": ready, **words}, 200 if ready else 503)


@router.get("/metrics", dependencies=[metrics_reader], summary="Prometheus metrics")
async def metrics(found: Annotated[Metrics, provided(Metrics)]) -> Response:
    return Response(found.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/api/openapi.json", summary="This description", include_in_schema=False)
async def openapi(request: Request, caller: Annotated[Caller, signed_in()]) -> dict[str, Any]:
    del caller  # any signed-in caller may read it
    return describe(request.app.openapi(), guarded_routes(request.app))


async def _answers(question: Awaitable[Any]) -> bool:
    try:
        await question
    except AWAY:
        return False
    return True
