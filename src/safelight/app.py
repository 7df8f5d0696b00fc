"""The ASGI application: routers, error mapper and frame around services opened elsewhere."""

from collections.abc import Iterable
from functools import cache

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from safelight import __version__
from safelight.accounts.routes import router as accounts
from safelight.admin.health.routes import router as health
from safelight.admin.routes import router as admin
from safelight.approvals.routes import router as approvals
from safelight.classification.reclassify.routes import router as reclassify
from safelight.classification.similar.routes import router as similar
from safelight.generations.artifacts.routes import router as artifacts
from safelight.generations.routes import router as generations
from safelight.http import errors
from safelight.http.described import REFUSALS
from safelight.http.frame import Frame, Registry
from safelight.http.short_road import ShortRoad
from safelight.ingest.contract import DatabaseError
from safelight.ingest.nodes.routes import router as nodes
from safelight.ingest.routes import router as ingest
from safelight.ingest.routes import upload_plainly
from safelight.library.archives.routes import router as archives
from safelight.library.lists.routes import router as lists
from safelight.library.retention.routes import router as retention
from safelight.library.routes import router as library
from safelight.library.thumbnails.routes import router as thumbnails
from safelight.live.routes import router as live
from safelight.objects.notifications.routes import router as events
from safelight.quotas.routes import router as quotas
from safelight.settings import Settings
from safelight.submissions.policies.routes import router as policies
from safelight.submissions.routes import router as submissions
from safelight.web.pages.errors import render_error_page
from safelight.web.routes import router as web

ROUTERS = (
    ingest,
    events,
    library,
    lists,
    archives,
    retention,
    thumbnails,
    similar,
    reclassify,
    generations,
    artifacts,
    approvals,
    submissions,
    policies,
    live,
    accounts,
    quotas,
    nodes,
    admin,
    web,
)
BODY_LIMITS: dict[str, int | None] = {
    "/api/upload": None,
    "/app/{org}/upload": None,
    "/api/organizations/{org}/blocklist/pictures": None,
    "/api/organizations/{org}/uploads/download": 4 * 1024 * 1024,  # thousands of names
    "/app/{org}/upload/download": 4 * 1024 * 1024,
    "/api/events/objects": 8 * 1024 * 1024,
    "/webhooks/{provider}": 16 * 1024 * 1024,  # some results come inside the message
}


@cache
def create_api(*, development: bool) -> FastAPI:
    """The routes, made ready: what they say of themselves takes longer to read than anything that a
    request does, so it is done once, and before the first of them."""
    return _ready(ROUTERS, development=development)


def _ready(routers: Iterable[APIRouter], *, development: bool) -> FastAPI:
    api = FastAPI(
        title="Safelight",
        version=__version__,
        docs_url=None,  # its scripts come from elsewhere; ours may not
        redoc_url=None,
        openapi_url=None,  # served signed-in, see admin/routes.py
        redirect_slashes=False,
        responses=REFUSALS,
    )
    errors.install(
        api,
        development=development,
        render_page=render_error_page,
        unavailable_as={"/api/upload": DatabaseError},
    )
    for router in routers:
        api.include_router(router)
    nowhere = {"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []}
    for route in api.routes:
        route.matches(nowhere)
    return api


def create_app(registry: Registry) -> ASGIApp:
    api = create_api(development=registry.get(Settings).development)
    return Frame(ShortRoad(api, "/api/upload", upload_plainly), registry, BODY_LIMITS)


def create_worker_app(registry: Registry) -> ASGIApp:
    """What a worker answers, if it has a port: how it is, and nothing else."""
    api = _ready([health], development=registry.get(Settings).development)
    return Frame(api, registry, {})
