"""Everything a browser visits: the pages, and the static files they use."""

from fastapi import APIRouter
from starlette.responses import Response

from safelight.accounts.guard import open_to_everyone
from safelight.errors import NotFound
from safelight.web.pages import (
    duplicates,
    home,
    password,
    queue,
    sign_in,
    submission,
    submissions,
    upload,
    workflow,
)
from safelight.web.rendering import PagesDep

router = APIRouter()
for page in (home, sign_in, password, upload, duplicates, submissions, submission, workflow, queue):
    router.include_router(page.router)


@router.get(
    "/static/{version}/{path:path}", dependencies=[open_to_everyone], include_in_schema=False
)
async def static(version: str, path: str, pages: PagesDep) -> Response:
    asset = pages.assets.find(version, path)
    if asset is None:
        raise NotFound
    forever = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(asset.content, media_type=asset.media_type, headers=forever)
