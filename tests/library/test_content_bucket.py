"""Originals from a real bucket: whole, of one upload, and with as few questions as there can be."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import picture
from inprocess import application
from library.api import LIBRARY, Api
from library.scripted import Scripted
from objects.stores import Bucket, fresh_bucket
from safelight.objects.s3 import S3Store
from safelight.objects.store import ObjectStore
from seaweed import Seaweed

pytestmark = pytest.mark.usefixtures("quiet")
PATH = f"{LIBRARY}/a.png/content"
SHORT, LONG = picture("PNG", (30, 20)), picture("PNG", (90, 70)) + b"\0" * 100_000
ETAGS = {f'"{hashlib.md5(content).hexdigest()}"': content for content in (SHORT, LONG)}


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


@pytest.fixture
async def api(
    database_url: str, tmp_path: Path, model: Scripted, bucket: Bucket
) -> AsyncIterator[Api]:
    async with (
        application(database_url, tmp_path, worker=True, object_store_url=bucket.url()) as app,
        app.client() as client,
    ):
        made = Api(app, client)
        await made.stored(await made.upload("a.png", SHORT))
        yield made


def overwrite(bucket: Bucket, content: bytes) -> None:
    bucket.client.put_object(
        Bucket=bucket.name, Key="default/a.png", Body=content, ContentType="image/png"
    )


@pytest.mark.parametrize(
    "headers", [{}, {"range": "bytes=5-"}, {"range": "bytes=-40"}, {"if-none-match": '"other"'}]
)
@pytest.mark.parametrize("others", [(LONG, SHORT), (SHORT, LONG)])
async def test_overwritten_between_two_questions(
    api: Api, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str],
    others: tuple[bytes, bytes],
) -> None:  # fmt: skip
    """What is read is of the etag that the answer has, all of it or the part that was asked for."""
    now, then = others
    overwrite(bucket, now)
    asked, head = 0, S3Store.head

    async def overtaken(self: S3Store, key: str) -> Any:
        nonlocal asked
        asked += 1
        found = await head(self, key)
        if asked == 1:
            await asyncio.to_thread(overwrite, bucket, then)
        return found

    monkeypatch.setattr(S3Store, "head", overtaken)
    check(await api.client.get(PATH, headers=headers), headers.get("range"))


async def test_overwritten_all_the_time(api: Api, bucket: Bucket) -> None:
    reading = True

    def keep_on() -> None:
        while reading:
            overwrite(bucket, LONG)
            overwrite(bucket, SHORT)

    writing = asyncio.create_task(asyncio.to_thread(keep_on))
    try:
        for range_ in [None, "bytes=5-", "bytes=-40"] * 5:
            answer = await api.client.get(PATH, headers={"range": range_} if range_ else {})
            if answer.status_code != 503:  # again and again, and so it says
                check(answer, range_)
    finally:
        reading = False
        await writing


def check(answer: httpx.Response, range_: str | None) -> None:
    assert answer.status_code == (206 if range_ else 200), answer.text
    whole = ETAGS[answer.headers["etag"]]
    expected = {None: whole, "bytes=5-": whole[5:], "bytes=-40": whole[-40:]}[range_]
    assert answer.content == expected
    if range_:
        assert answer.headers["content-range"].endswith(f"/{len(whole)}")


async def test_a_download_is_one_request(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    ask = S3Store._ask

    async def counted(self: S3Store, key: str, options: Any) -> Any:
        asked.append(options)
        return await ask(self, key, options)

    monkeypatch.setattr(S3Store, "_ask", counted)
    assert (await api.client.get(PATH)).content == SHORT
    assert (await api.client.get(PATH, headers={"range": "bytes=2-5"})).content == SHORT[2:6]
    assert len(asked) == 2
    beyond = await api.client.get(PATH, headers={"range": "bytes=9999999-"})
    assert beyond.status_code == 416


async def test_what_others_keep_there_is_not_served(api: Api, bucket: Bucket) -> None:
    """Not without an entry: nobody has looked at it, and it may be anything."""
    page = {"Body": b"<script>", "ContentType": "text/html"}
    bucket.client.put_object(Bucket=bucket.name, Key="default/notes.html", **page)
    store: Any = api.app.registry.get(ObjectStore)
    assert (await store.head("default/notes.html")).size == 8
    for headers in ({}, {"range": "bytes=0-1"}):
        answer = await api.client.get(f"{LIBRARY}/notes.html/content", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


async def test_gone_from_the_moment_on_that_it_was_deleted(api: Api) -> None:
    assert await api.delete("a.png") == 202
    assert (await api.client.get(PATH)).status_code == 404
    assert (await api.client.head(PATH)).status_code == 404
