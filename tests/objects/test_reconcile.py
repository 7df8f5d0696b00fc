"""Writes to a bucket that were cut off: the event comes late, never not at all."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from objects.stores import (
    Bucket,
    NoImages,
    Watch,
    deliveries,
    events,
    make_bucket,
    settle,
    stream,
    units_of,
)
from safelight.errors import ConfigurationError
from safelight.infra import failpoints
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.identity import established_bucket, identity_of
from safelight.objects import repo
from safelight.objects.bucket import parse_url
from safelight.objects.reconcile import Reconcile
from safelight.objects.s3 import MARK_KEY, S3Store
from safelight.objects.services import open_store
from safelight.objects.store import Facts, StoreUnavailable
from safelight.settings import load
from safelight.testing.base import open_base

KEY = "acme/größe.jpg"


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
    return await settle(units_of(database, clock), store)


async def cut_off(point: str, put: object) -> None:
    failpoints.arm(point, "raise")
    with pytest.raises(FailpointError):
        await put  # type: ignore[misc]  # whatever it is, it is awaited
    failpoints.disarm()


@pytest.mark.parametrize(
    ("point", "landed"),
    [("objects.leave_mark", False), ("objects.issue_ticket", False), ("objects.bucket_put", False),
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
    """Until no request of it can be applied any more."""
    put = failpoints.arm("objects.bucket_put", "hang")
    writing = asyncio.create_task(store.put(KEY, stream(b"bytes"), facts("m1")))
    await put.passed()
    reconciling = Reconcile(units_of(database, clock), store, NoImages(), telling=False)
    assert await reconciling.run() == 0
    assert await tickets(database) == 1
    writing.cancel()
    await asyncio.wait([writing])
    failpoints.disarm()
    assert await reconcile(store, database, clock) == 1
    assert (await events(database), await tickets(database)) == ([], 0)


async def test_a_clock_that_was_ahead_keeps_no_ticket(
    store: S3Store, database: Database, clock: Watch
) -> None:
    await cut_off("objects.record_bucket_put", store.put(KEY, stream(b"bytes"), facts("m1")))
    await database.execute("UPDATE object_outbox SET due = clock_timestamp() + interval '3 days'")
    reconciling = Reconcile(units_of(database, clock), store, NoImages(), telling=False)
    assert await reconciling.run() == 1
    assert await tickets(database) == 0


async def test_one_that_was_settled_too_early_is_settled_again(
    store: S3Store, database: Database, clock: Watch
) -> None:
    """The process stood still for longer than anybody waits, and went on."""
    put = failpoints.arm("objects.bucket_put", "hold")
    writing = asyncio.create_task(store.put(KEY, stream(b"bytes"), facts("m1")))
    await put.passed()
    assert await reconcile(store, database, clock) == 1
    failpoints.disarm()
    await writing
    assert await tickets(database) == 1
    assert await reconcile(store, database, clock) == 1
    assert (len(await events(database)), await tickets(database)) == (1, 0)


async def test_what_changed_since_the_bucket_was_asked_is_looked_at_again(
    store: S3Store, database: Database, clock: Watch
) -> None:
    await cut_off("objects.record_bucket_put", store.put(KEY, stream(b"bytes"), facts("m1")))
    about_to_tell = failpoints.arm("objects.redeem", "raise@1")
    seen = await repo.unsettled(database, KEY)
    await store.put(KEY, stream(b"newer"), facts("m2"))
    async with database.transaction() as connection:
        assert not await repo.hold(connection, seen)
    with pytest.raises(FailpointError):
        await reconcile(store, database, clock)
    assert about_to_tell.passes
    assert await reconcile(store, database, clock) == 1
    assert (len(await events(database)), await tickets(database)) == (1, 0)


# Whose bucket it is


async def test_a_bucket_that_is_not_there(
    database: Database, bucket: Bucket, clock: Watch, tmp_path: Path
) -> None:
    """It is no bucket without objects."""
    store = Bucket(bucket.server, "missing", None).store(database, tmp_path / "spool", clock)
    for ask in (
        lambda: store.put(KEY, stream(b"bytes"), facts("m1")), lambda: store.head(KEY),
        lambda: store.get(KEY), lambda: store.delete(KEY), store.list, store.check,
    ):  # fmt: skip
        with pytest.raises(StoreUnavailable, match=r"does not exist|NoSuchBucket"):
            await ask()
    await store.close()


async def test_a_bucket_that_is_away_at_the_start(
    database: Database, database_url: str, bucket: Bucket, tmp_path: Path
) -> None:
    """The server starts; a bucket that it then finds to be another's it does not touch."""
    missing = Bucket(bucket.server, f"{bucket.name}-soon", bucket.client)
    settings = load({"data_dir": tmp_path, "object_store_url": missing.url()})
    async with open_base(settings, database_url) as base:
        store = (await open_store(base, NoImages())).store
        with pytest.raises(StoreUnavailable):
            await store.check()
        made = make_bucket(bucket.server, missing.name)
        made.client.put_object(Bucket=made.name, Key=MARK_KEY, Body=b"db_another")
        with pytest.raises(StoreUnavailable) as refusal:
            await store.put(KEY, stream(b"bytes"), facts("m1"))
        assert "belongs to another database" in refusal.value.details["reason"]
        with pytest.raises(ConfigurationError, match="belongs to another database"):
            await open_store(base, NoImages())
        assert made.keys() == []
        await store.close()


async def test_a_bucket_that_is_gone(
    store: S3Store, database: Database, bucket: Bucket, clock: Watch
) -> None:
    """A missing bucket is never a missing object: nothing is told, nothing taken for deleted."""
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    await cut_off("objects.bucket_delete", store.delete(KEY))
    for key in (KEY, MARK_KEY):
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    bucket.client.delete_bucket(Bucket=bucket.name)
    for ask in (store.head, store.get, partial(store.get, start=1, stop=2), store.delete):
        with pytest.raises(StoreUnavailable):
            await ask(KEY)
    with pytest.raises(StoreUnavailable):
        await reconcile(store, database, clock)
    assert [action for action, _, _ in await events(database)] == ["created"]


async def test_the_store_is_checked_by_its_mark(store: S3Store, bucket: Bucket) -> None:
    """Not by a listing, which asks for a thousand keys. Its absence is itself news."""
    await store.ready()
    listing = store.list
    store.list = None  # type: ignore[assignment, method-assign]  # whoever calls it fails
    await store.check()
    bucket.client.delete_object(Bucket=bucket.name, Key=MARK_KEY)
    with pytest.raises(StoreUnavailable, match="not the one this database has its images in"):
        await store.check()
    store.list = listing  # type: ignore[method-assign]


async def test_another_bucket_under_the_same_name(
    store: S3Store, bucket: Bucket, database: Database, clock: Watch, tmp_path: Path
) -> None:
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    bucket.client.put_object(Bucket=bucket.name, Key=MARK_KEY, Body=b"db_another")
    with pytest.raises(StoreUnavailable):
        await store.head("acme/none.jpg")
    later = bucket.store(database, tmp_path / "spool", clock)
    with pytest.raises(ConfigurationError, match="belongs to another database: to db_another"):
        await later.ready()
    with pytest.raises(StoreUnavailable) as refusal:
        await later.put(KEY, stream(b"bytes"), facts("m2"))
    assert "belongs to another database" in refusal.value.details["reason"]
    await later.close()


async def test_a_misspelt_bucket(
    store: S3Store, bucket: Bucket, database: Database, clock: Watch, tmp_path: Path
) -> None:
    """A second machine's, which exists and is empty."""
    await store.ready()
    other = make_bucket(bucket.server, f"{bucket.name}-typo")
    misspelt = other.store(database, tmp_path / "spool", clock)
    with pytest.raises(ConfigurationError, match=f"are in the bucket {bucket.name} at"):
        await misspelt.ready()
    assert (await misspelt.mark(), other.keys()) == (None, [])
    await misspelt.close()


@pytest.mark.parametrize("holds", [True, False])
async def test_a_bucket_from_before_there_were_marks(
    store: S3Store, bucket: Bucket, database: Database, clock: Watch, tmp_path: Path, holds: bool
) -> None:
    await store.put(KEY, stream(b"bytes"), facts("m1"))
    await database.execute("UPDATE identity SET bucket = NULL")
    for key in [MARK_KEY] if holds else [MARK_KEY, KEY]:
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    upgraded = bucket.store(database, tmp_path / "spool", clock)
    if holds:
        await upgraded.ready()
        assert await upgraded.mark() == await identity_of(database)
    else:
        with pytest.raises(ConfigurationError, match="are in another bucket"):
            await upgraded.ready()
    await upgraded.close()


async def test_cut_off_before_the_database_knows_its_bucket(
    store: S3Store, database: Database
) -> None:
    await cut_off("identity.establish_bucket", store.ready())
    assert await established_bucket(database) is None
    await store.ready()
    assert await established_bucket(database)


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a//b",
        "s3://bucket/../a",
        "s3://bucket?sse=none",
        "s3://bucket?sse_kms_key_id=k",
        "s3://?region=x",
        "s3://bucket?colour=red",
        "s3://bucket?events=none",
    ],
)
def test_addresses_that_cannot_work(url: str) -> None:
    with pytest.raises(ConfigurationError, match="SAFELIGHT_OBJECT_STORE_URL"):
        parse_url(url)
