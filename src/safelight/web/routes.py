"""Everything a browser visits: the pages, and the static files they use."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from safelight.accounts.guard import AsViewer, open_to_everyone
from safelight.errors import NotFound
from safelight.http.frame import DatabaseDep
from safelight.web.pages import (
    account,
    artifacts,
    download,
    duplicates,
    gallery,
    generate,
    health,
    home,
    image,
    inspector,
    letters,
    members,
    password,
    patterns,
    queue,
    reference,
    rules,
    sign_in,
    spending,
    submission,
    submissions,
    theme,
    tokens,
    upload,
    usage,
    workflow,
)
from safelight.web.rendering import PagesDep, counted

router = APIRouter()
for page in (
    home,
    sign_in,
    password,
    account,
    upload,
    gallery,
    download,
    image,
    duplicates,
    generate,
    artifacts,
    submissions,
    submission,
    workflow,
    inspector,
    letters,
    queue,
    members,
    tokens,
    rules,
    usage,
    spending,
    health,
    reference,
    patterns,
    theme,
):
    router.include_router(page.router)


@router.get("/app/{org}/counts", include_in_schema=False)
async def counts(access: AsViewer, db: DatabaseDep) -> JSONResponse:
    """What the frame counts, as it is now."""
    return JSONResponse(await counted(db, access.organization))


@router.get(
    "/static/{version}/{path:path}", dependencies=[open_to_everyone], include_in_schema=False
)
async def static(request: Request, version: str, path: str, pages: PagesDep) -> Response:
    asset = pages.assets.find(version, path)
    if asset is None:
        raise NotFound
    content, encoding = asset.encoded(request.headers.get("accept-encoding", ""))
    headers = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
    if encoding:
        headers["content-encoding"] = encoding
    return Response(content, media_type=asset.media_type, headers=headers)
