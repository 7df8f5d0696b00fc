"""The process dies at every step of a write to a real bucket, and is settled: bucket and index agree,
and what happened is told once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from objects.bucket_life import CONTENT, FACTS, KEY, Stored, start
from objects.stores import Bucket, Watch, events, fresh_bucket, settle, stream, units_of
from points import all_points, sources
from safelight.infra.db import Database
from safelight.infra.failpoints import EXIT_CODE
from safelight.infra.files import joined
from safelight.objects.s3 import S3Store
from safelight.objects.store import NoSuchObject
from seaweed import Seaweed

pytestmark = pytest.mark.process

# Whether the bucket has done it by then.
PUT = {
    "objects.leave_mark": False, "objects.issue_ticket": False, "objects.bucket_put": False,
    "objects.record_bucket_put": True, "objects.put": True,
}  # fmt: skip
DELETE = {
    "objects.issue_ticket": False, "objects.bucket_delete": False,
    "objects.record_bucket_delete": True, "objects.delete": True,
}  # fmt: skip
EXPIRE = {
    "objects.issue_ticket": False, "objects.bucket_delete_aged": False,
    "objects.record_bucket_delete_aged": True, "objects.delete": True,
}  # fmt: skip
ERASE = ["objects.issue_ticket", "objects.erase", "objects.mended"]


class Yard:
    """A bucket, what the database says of it, and processes that die."""

    def __init__(self, db: Database, url: str, root: Path, bucket: Bucket, told_by: str) -> None:
        self.db, self._url, self._root, self.bucket, self._told_by = db, url, root, bucket, told_by
        self.tells = told_by == "own"
        self._clock = Watch()
        self.store: S3Store = bucket.store(db, root / "spool", self._clock, events=told_by)

    async def die(self, what: str, point: str) -> None:
        process = start(self._url, self._root, self.bucket, self._told_by, what, f"{point}=exit")
        assert await asyncio.to_thread(process.wait, 30) == EXIT_CODE

    async def settle(self) -> None:
        """Until there is nothing to settle; then bucket and index agree."""
        units = units_of(self.db, self._clock)
        while await settle(units, self.store, Stored()):
            pass
        assert await self.db.fetchval("SELECT count(*) FROM object_outbox") == 0
        etag = await self.db.fetchval("SELECT etag FROM objects WHERE key = $1 AND present", KEY)
        assert await self._etag() == etag

    async def content(self) -> bytes | None:
        try:
            return await joined((await self.store.get(KEY)).chunks)
        except NoSuchObject:
            return None

    async def _etag(self) -> str | None:
        try:
            return (await self.store.head(KEY)).etag
        except NoSuchObject:
            return None

    async def told(self) -> list[str]:
        return [action for action, _, _ in await events(self.db)]

    async def put(self, content: bytes = CONTENT) -> None:
        await self.store.put(KEY, stream(content), FACTS)


@pytest.fixture(params=["own", "bucket"])
async def yard(
    request: pytest.FixtureRequest,
    database: Database,
    database_url: str,
    tmp_path: Path,
    weed: Seaweed,
) -> AsyncIterator[Yard]:
    """The parameter says whose events count."""
    made = Yard(database, database_url, tmp_path, fresh_bucket(weed), request.param)
    yield made
    await made.store.close()


def test_no_step_of_a_bucket_is_left_out() -> None:
    steps = {one.name for one in all_points(sources()) if one.file == "objects/s3.py"}
    assert steps <= {*PUT, *DELETE, *EXPIRE, *ERASE}


@pytest.mark.parametrize(("point", "landed"), PUT.items())
async def test_a_put(yard: Yard, point: str, landed: bool) -> None:
    await yard.die("put", point)
    await yard.settle()
    assert await yard.content() == (CONTENT if landed else None)
    assert await yard.told() == ["created"] * (landed and yard.tells)
    await yard.put()
    await yard.settle()
    assert await yard.content() == CONTENT
    assert await yard.told() == ["created"] * (1 + landed) * yard.tells


@pytest.mark.parametrize(("point", "landed"), list(PUT.items())[1:])  # the mark is there
async def test_a_put_over_another(yard: Yard, point: str, landed: bool) -> None:
    await yard.put(b"before")
    await yard.die("put", point)
    await yard.settle()
    assert await yard.content() == (CONTENT if landed else b"before")
    assert await yard.told() == ["created"] * (1 + landed) * yard.tells


@pytest.mark.parametrize(("point", "gone"), DELETE.items())
async def test_a_delete(yard: Yard, point: str, gone: bool) -> None:
    await _ends(yard, "delete", point, gone)


@pytest.mark.parametrize(("point", "gone"), EXPIRE.items())
async def test_a_delete_that_nobody_asked_for(yard: Yard, point: str, gone: bool) -> None:
    await _ends(yard, "expire", point, gone)


async def _ends(yard: Yard, what: str, point: str, gone: bool) -> None:
    await yard.put()
    await yard.die(what, point)
    await yard.settle()
    assert await yard.content() == (None if gone else CONTENT)
    assert await yard.told() == ["created", *["deleted"] * gone] * yard.tells
    await yard.store.delete(KEY)
    await yard.settle()
    assert await yard.content() is None


async def test_a_delete_that_is_called_off(yard: Yard) -> None:
    """It dies right before it takes its ticket back."""
    await yard.put()
    await yard.die("keep", "objects.redeem")
    await yard.settle()
    assert await yard.content() == CONTENT
    assert await yard.told() == ["created"] * yard.tells


@pytest.mark.parametrize("point", ERASE)
async def test_taking_away_what_came_late(yard: Yard, point: str) -> None:
    """A put whose process died reaches the bucket after its name was deleted."""
    await yard.die("put", "objects.bucket_put")
    await yard.store.delete(KEY)
    yard.bucket.client.put_object(
        Bucket=yard.bucket.name, Key=KEY, Body=CONTENT, Metadata={"imageid": "img_1"}
    )
    await yard.die("settle", point)
    await yard.settle()
    assert await yard.content() is None
    assert await yard.told() == ["deleted"] * yard.tells


@pytest.mark.parametrize(
    ("what", "point"),
    [("put", "objects.put"), ("put", "objects.redeem"), ("delete", "objects.delete"),
     ("delete", "objects.redeem")],
)  # fmt: skip
async def test_settling(yard: Yard, what: str, point: str) -> None:
    if what == "delete":
        await yard.put()
    await yard.die(what, f"objects.record_bucket_{what}")
    await yard.die("settle", point)
    assert await yard.db.fetchval("SELECT count(*) FROM object_outbox") == 1
    await yard.settle()
    assert await yard.content() == (None if what == "delete" else CONTENT)
    assert await yard.told() == ["created", *["deleted"] * (what == "delete")] * yard.tells
