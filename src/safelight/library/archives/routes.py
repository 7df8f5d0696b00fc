"""Originals of many names as one zip."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from safelight.accounts.guard import AsViewer
from safelight.errors import InvalidRequest, NotFound
from safelight.http.content import soon
from safelight.http.described import Described, Responses
from safelight.http.frame import ClockDep, ReadsDep, provided
from safelight.infra.db import Database
from safelight.library.archives.archive import zipped
from safelight.library.lists import repo as lists
from safelight.objects.store import ObjectStore

router = APIRouter(tags=["library"], prefix="/api/organizations/{org}", route_class=Described)

MOST_NAMES = 2_000
TYPE = "application/zip"
_ANSWER: Responses = {
    200: {
        "description": "A zip of the originals, sent while it is made. What is not in it is listed "
        "in its `missing.txt`.",
        "content": {TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}

StoreDep = Annotated[ObjectStore, provided(ObjectStore)]


class DownloadBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    names: Annotated[list[str], Field(min_length=1, max_length=MOST_NAMES)]


class _Archive(StreamingResponse):
    """Whoever goes away in the middle leaves nothing open."""

    def __init__(self, chunks: AsyncGenerator[bytes], name: str) -> None:
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        super().__init__(chunks, headers=headers, media_type=TYPE)
        self._chunks = chunks

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._chunks):
            await super().stream_response(send)


@router.post("/uploads/download", summary="The originals of many, as a zip", responses=_ANSWER)
async def download(
    body: DownloadBody, access: AsViewer, db: ReadsDep, store: StoreDep, clock: ClockDep
) -> Response:
    """Up to 2,000 names. It begins at once, so nobody knows its length before."""
    return await archive(body.names, access.organization, db, store, clock.now_ms())


async def archive(
    names: Sequence[str], organization: str, db: Database, store: ObjectStore, now: int
) -> Response:
    """For the page's form as well."""
    wanted = list(dict.fromkeys(names))
    if not 0 < len(wanted) <= MOST_NAMES:
        raise InvalidRequest(f"Name between one and {MOST_NAMES:,} images.")
    found = await lists.dated(db, organization, [name for name in wanted if "\0" not in name])
    if not found:
        raise NotFound("None of these images is in the library.")
    chunks = zipped(store, organization, {name: found.get(name) for name in wanted})
    day = datetime.fromtimestamp(now / 1000, UTC).date()
    return _Archive(await _begun(chunks), f"{organization} {day}.zip")


async def _begun(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same, once the first of them is here: what goes wrong until then is still an answer."""
    async with soon():
        first = await anext(chunks)
    return _all(first, chunks)


async def _all(first: bytes, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield chunk
