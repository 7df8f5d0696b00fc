"""Writes to a bucket that were cut off: the event comes late, never not at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from objects.stores import Bucket, Watch, deliveries, events, stream, units_of
from safelight.errors import ConfigurationError
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.objects.reconcile import Reconcile
from safelight.objects.s3 import S3Store, parse_url
from safelight.objects.store import Facts, NoSuchObject, StoreUnavailable

KEY = "acme/größe.jpg"
LATER_MS = 120_000


@pytest.fixture
def clock() -> Watch:
    return Watch()


@pytest.fixture
async def store(
    database: Database, bucket: Bucket, clock: Watch, tmp_path: Path
) -> AsyncIterator[S3Store]:
    made = bucket.store(database, tmp_path / "spool", clock)
    yield made
    await made.close()


def facts(marker: str) -> Facts:
    return Facts("image/jpeg", {"name": "größe.jpg", "idempotencyKey": marker})


async def tickets(db: Database) -> int:
    return int(await db.fetchval("SELECT count(*) FROM object_outbox"))


async def reconcile(store: S3Store, database: Database, clock: Watch) -> int:
    clock.ms = clock.now_ms() + LATER_MS
    return await Reconcile(units_of(database, clock), store).run()


async def cut_off(point: str, put: object) -> None:
    failpoints.arm(point, "raise")
    with pytest.raises(FailpointError):
        await put  # type: ignore[misc]  # whatever it is, it is awaited
    failpoints.disarm()


@pytest.mark.parametrize(
    ("point", "landed"),
    [("objects.issue_ticket", False), ("objects.redeem", False), ("objects.bucket_put", False),
     ("objects.record_bucket_put", True), ("objects.put", True)],
)  # fmt: skip
async def test_a_put_cut_off(
    store: S3Store, database: Database, clock: Watch, point: str, landed: bool
) -> None:
    await cut_off(point, store.put(KEY, stream(b"bytes"), facts("m1")))
    assert await events(database) == []
    await reconcile(store, database, clock)
    assert await tickets(database) == 0
    told = await database.fetch("SELECT * FROM object_events")
    if not landed:
        assert told == []
        return
    [event] = told
    info = await store.head(KEY)
    assert (event["action"], event["key"], event["etag"]) == ("created", KEY, info.etag)
    assert event["metadata"] == {"name": "größe.jpg", "idempotencyKey": "m1"}
    assert len(await deliveries(database)) == 1


@pytest.mark.parametrize(
    ("point", "gone"),
    [("objects.issue_ticket", False), ("objects.bucket_delete", False),
     ("objects.record_bucket_delete", True), ("objects.delete", True)],
)  # fmt: skip
async def test_a_delete_cut_off(
    store: S3Store, database: Database, clock: Watch, point: str, gone: bool
) -> None:
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    await cut_off(point, store.delete(KEY))
    await reconcile(store, database, clock)
    assert await tickets(database) == 0
    actions = [action for action, _, _ in await events(database)]
    assert actions == (["created", "deleted"] if gone else ["created"])


@pytest.mark.parametrize("point", ["objects.put", "objects.redeem"])
async def test_reconciling_a_put_cut_off(
    store: S3Store, database: Database, clock: Watch, point: str
) -> None:
    await cut_off("objects.record_bucket_put", store.put(KEY, stream(b"bytes"), facts("m1")))
    await cut_off(point, reconcile(store, database, clock))
    assert (await events(database), await tickets(database)) == ([], 1)
    assert await reconcile(store, database, clock) == 1
    assert (len(await events(database)), await tickets(database)) == (1, 0)


@pytest.mark.parametrize("point", ["objects.delete", "objects.redeem"])
async def test_reconciling_a_delete_cut_off(
    store: S3Store, database: Database, clock: Watch, point: str
) -> None:
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    await cut_off("objects.record_bucket_delete", store.delete(KEY))
    await cut_off(point, reconcile(store, database, clock))
    assert (len(await events(database)), await tickets(database)) == (1, 1)
    assert await reconcile(store, database, clock) == 1
    assert (len(await events(database)), await tickets(database)) == (2, 0)


async def test_what_was_done_again_meanwhile_is_not_told_twice(
    store: S3Store, database: Database, clock: Watch
) -> None:
    await cut_off("objects.record_bucket_put", store.put(KEY, stream(b"bytes"), facts("m1")))
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    assert await reconcile(store, database, clock) == 1
    assert len(await events(database)) == 1


async def test_the_same_bytes_with_another_marker_are_told(
    store: S3Store, database: Database, clock: Watch
) -> None:
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    await cut_off("objects.record_bucket_put", store.put(KEY, stream(b"bytes"), facts("m2")))
    await reconcile(store, database, clock)
    rows = await database.fetch("SELECT metadata FROM object_events ORDER BY id")
    assert [row["metadata"]["idempotencyKey"] for row in rows] == ["m1", "m2"]


async def test_a_write_under_way_is_left_alone(
    store: S3Store, database: Database, clock: Watch
) -> None:
    put = failpoints.arm("objects.bucket_put", "hang")
    writing = asyncio.create_task(store.put(KEY, stream(b"bytes"), facts("m1")))
    await put.passed()
    assert await reconcile(store, database, clock) == 0
    assert await tickets(database) == 1
    writing.cancel()
    await asyncio.wait([writing])
    failpoints.disarm()
    assert await reconcile(store, database, clock) == 1
    assert await events(database) == []


async def test_a_bucket_that_is_not_there(
    database: Database, bucket: Bucket, clock: Watch, tmp_path: Path
) -> None:
    store = Bucket(bucket.server, "missing", None).store(database, tmp_path / "spool", clock)
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await store.put(KEY, stream(b"bytes"), facts("m1"))
    with pytest.raises((StoreUnavailable, NoSuchObject)):
        await store.check()
    await store.close()


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/prefix", "s3://?region=x", "s3://bucket?colour=red", "s3://bucket?events=none"],
)
def test_addresses_that_cannot_work(url: str) -> None:
    with pytest.raises(ConfigurationError, match="SAFELIGHT_OBJECT_STORE_URL"):
        parse_url(url)
