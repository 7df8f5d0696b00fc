"""`SAFELIGHT_DOWNLOADS=presigned`: whoever may have an original fetches it from the bucket."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from harness import picture
from inprocess import application
from library.api import LIBRARY, Api
from library.scripted import Scripted
from objects.stores import fresh_bucket
from safelight.errors import ConfigurationError
from safelight.objects.bucket import parse_url
from safelight.settings import load
from seaweed import Seaweed

pytestmark = pytest.mark.usefixtures("quiet")
NAME = "größe & co.png"
PATH = f"{LIBRARY}/{NAME}/content"
IMAGE = picture("PNG", (30, 20))


@pytest.fixture
async def api(
    database_url: str, tmp_path: Path, model: Scripted, weed: Seaweed
) -> AsyncIterator[Api]:
    url = fresh_bucket(weed).url("below/it")
    async with (
        application(
            database_url, tmp_path, worker=True, object_store_url=url, downloads="presigned"
        ) as app,
        app.client() as client,
    ):
        made = Api(app, client)
        await made.stored(await made.upload(NAME, IMAGE))
        yield made


async def test_the_bucket_sends_it(api: Api, weed: Seaweed) -> None:
    answer = await api.client.get(PATH)
    assert (answer.status_code, answer.content) == (302, b"")
    assert answer.headers["cache-control"] == "private, no-store"
    where = answer.headers["location"]
    assert urlsplit(where).netloc == urlsplit(weed.address).netloc
    assert "X-Amz-Expires=300" in where
    async with httpx.AsyncClient() as anybody:
        found = await anybody.get(where)
        assert (found.status_code, found.content) == (200, IMAGE)
        assert found.headers["content-type"] == "image/png"
        assert "gr%C3%B6%C3%9Fe" in found.headers["content-disposition"]
        part = await anybody.get(where, headers={"range": "bytes=2-5"})
        assert (part.status_code, part.content) == (206, IMAGE[2:6])
        assert (await anybody.get(where.replace("below", "above"))).status_code == 403


async def test_what_is_answered_here(api: Api) -> None:
    """Who may not have it is told so, and who has it already, and who asks only what there is."""
    async with api.app.client(None) as stranger:
        assert (await stranger.get(PATH)).status_code == 401
    etag = (await api.client.get(PATH)).headers["etag"]
    same = await api.client.get(PATH, headers={"if-none-match": etag})
    assert (same.status_code, "location" in same.headers) == (304, False)
    head = await api.client.head(PATH)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(IMAGE)))
    assert (await api.client.get(f"{LIBRARY}/none.png/content")).status_code == 404
    assert await api.delete(NAME) == 202
    assert (await api.client.get(PATH)).status_code == 404


def test_files_have_no_address() -> None:
    with pytest.raises(ConfigurationError, match="SAFELIGHT_DOWNLOADS=presigned needs a bucket"):
        load({"downloads": "presigned"})


async def test_nobody_can_sign_without_a_key(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert parse_url("s3://images?region=x").signer({}) is None
    with pytest.raises(ConfigurationError, match="needs credentials that can sign"):
        async with application(
            database_url, tmp_path, object_store_url="s3://images?region=x", downloads="presigned"
        ):
            pass
