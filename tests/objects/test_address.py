"""What a bucket's address says: below which prefix, in which storage class, encrypted by whom."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from objects.notification_samples import r2
from objects.stores import Bucket, Watch, deliveries, fresh_bucket, make_bucket, stream, units_of
from safelight.errors import ConfigurationError
from safelight.infra.db import Database
from safelight.infra.files import joined
from safelight.objects.bucket import parse_url
from safelight.objects.notifications.intake import Intake, IntakeCounts
from safelight.objects.s3 import MARK_KEY, S3Store
from safelight.objects.store import Facts
from seaweed import Seaweed

KEY = "acme/größe.jpg"
FACTS = Facts("image/jpeg", {"idempotencyKey": "m"})


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


def all_keys(bucket: Bucket) -> list[str]:
    return [one["Key"] for one in bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"]]


async def test_below_a_prefix(database: Database, bucket: Bucket, tmp_path: Path) -> None:
    """The mark as well: so two databases can share a bucket."""
    store = bucket.store(database, tmp_path / "spool", Watch(), prefix="some/where")
    await store.put(KEY, stream(b"bytes"), FACTS)
    bucket.client.put_object(Bucket=bucket.name, Key="some/wherever/acme/x", Body=b"")
    bucket.client.put_object(Bucket=bucket.name, Key=MARK_KEY, Body=b"db_another")
    assert f"some/where/{KEY}" in all_keys(bucket)
    assert f"some/where/{MARK_KEY}" in all_keys(bucket)
    assert [one.key for one in await store.list()] == [KEY]
    assert [one.key for one in await store.list("acme/", after="acme/a")] == [KEY]
    assert await store.list(after=KEY) == []
    assert (await store.head(KEY)).key == KEY
    assert await joined((await store.get(KEY, 1, 3)).chunks) == b"yt"
    await store.check()
    await store.delete(KEY)
    assert f"some/where/{KEY}" not in all_keys(bucket)
    [created, _] = await database.fetch("SELECT key FROM object_events ORDER BY id")
    assert created["key"] == KEY
    await store.close()


async def test_two_databases_share_a_bucket(
    database: Database, bucket: Bucket, tmp_path: Path
) -> None:
    there = bucket.store(database, tmp_path / "spool", Watch(), prefix="mine")
    await there.ready()
    other = bucket.store(database, tmp_path / "spool", Watch(), prefix="yours")
    with pytest.raises(ConfigurationError, match=f"are in the bucket {bucket.name}/mine at"):
        await other.ready()
    for store in (there, other):
        await store.close()


@pytest.fixture
def told(database: Database) -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


async def test_news_below_a_prefix(database: Database) -> None:
    intake = Intake(units_of(database, Watch()), None, "some/where/")
    news = [r2(key=key) for key in ("some/where/acme/a.png", "acme/b.png", "some/wherever/acme/c")]
    assert await intake.take(news) == IntakeCounts(accepted=1, ignored=2, rejected=0)
    [delivery] = await deliveries(database)
    assert delivery["name"] == "a.png"
    assert await database.fetchval("SELECT key FROM object_events") == "acme/a.png"


async def test_news_of_a_bucket_whose_events_are_ours(database: Database, told: list[Any]) -> None:
    """It is said, and nothing is kept that would be dropped later."""
    intake = Intake(units_of(database, Watch()), heard=False)
    assert await intake.take([r2(), {"what": "ever"}]) == IntakeCounts(0, 1, 1)
    assert await deliveries(database) == []
    [line] = [line for line in told if line["log_level"] == "warning"]
    assert "events=bucket" in line["event"]
    assert line["count"] == 1


async def test_how_it_is_kept(database: Database, bucket: Bucket, tmp_path: Path) -> None:
    """Also what is sent in parts."""
    store = bucket.store(
        database, tmp_path / "spool", Watch(), storage_class="STANDARD_IA", sse="AES256"
    )
    for key, content in ((KEY, b"bytes"), ("acme/large.jpg", b"12345678" * 1_500_000)):
        await store.put(key, stream(content), FACTS)
        held = bucket.client.head_object(Bucket=bucket.name, Key=key)
        assert (held["StorageClass"], held["ServerSideEncryption"]) == ("STANDARD_IA", "AES256")
        assert held["Metadata"] == {"idempotencykey": "m"}
        assert (await store.head(key)).metadata == {"idempotencyKey": "m"}
        assert await joined((await store.get(key)).chunks) == content
    await store.close()


async def test_with_a_key_of_somebody_who_keeps_keys(
    database: Database, s3: str, tmp_path: Path
) -> None:
    bucket = make_bucket(s3, "encrypted")
    store: S3Store = bucket.store(
        database, tmp_path / "spool", Watch(), sse="aws:kms", sse_kms_key_id="key-1"
    )
    await store.put(KEY, stream(b"bytes"), FACTS)
    held = bucket.client.head_object(Bucket=bucket.name, Key=KEY)
    assert (held["ServerSideEncryption"], held["SSEKMSKeyId"]) == ("aws:kms", "key-1")
    await store.close()


@pytest.mark.parametrize(
    ("url", "prefix", "where"),
    [("s3://images", "", "images at Amazon S3"), ("s3://images/", "", "images at Amazon S3"),
     ("s3://images/a/b_c.d/?region=x", "a/b_c.d/", "images/a/b_c.d at Amazon S3")],
)  # fmt: skip
def test_addresses(url: str, prefix: str, where: str) -> None:
    found = parse_url(url)
    assert (found.bucket, found.prefix, found.where) == ("images", prefix, where)
