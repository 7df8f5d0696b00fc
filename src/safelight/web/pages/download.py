"""A selection as one zip, by a form: what POST …/uploads/download does."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.guard import AsViewer
from safelight.http.frame import ClockDep, ReadsDep
from safelight.library.archives.routes import MOST_NAMES, StoreDep, archive

router = APIRouter(include_in_schema=False)

_OTHER_FIELDS = 10


@router.post("/app/{org}/upload/download")
async def download_by_form(
    request: Request, access: AsViewer, db: ReadsDep, store: StoreDep, clock: ClockDep
) -> Response:
    form = await request.form(max_files=0, max_fields=MOST_NAMES + _OTHER_FIELDS)
    names = [str(name) for name in form.getlist("name")]
    return await archive(names, access.organization, db, store, clock.now_ms())
