"""From a bucket over SQS to the library and back, on servers that speak both."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]  # it has no stubs
import pytest

from inprocess import application
from library.api import Api
from library.scripted import Scripted
from objects import notification_samples as sample
from objects.stores import Bucket, make_bucket, s3_server
from safelight.errors import ConfigurationError
from safelight.infra.db import Database
from safelight.infra.queue.jobs import Nothing
from safelight.infra.queue.queue import Queue
from safelight.objects.jobs import PULL
from safelight.settings import load
from safelight.testing.waiting import until
from safelight.wiring import open_services, schedules

pytestmark = pytest.mark.usefixtures("quiet")
KEYS = "region=us-east-1&access_key_id=key&secret_access_key=secret"


@pytest.fixture(scope="module")
def amazon() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(amazon: str) -> Bucket:
    """Its notifications go into a queue."""
    bucket = make_bucket(amazon, "pulled")
    client = sqs_of(amazon)
    queue = client.create_queue(QueueName="pulled")["QueueUrl"]
    about = client.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    bucket.client.put_bucket_notification_configuration(
        Bucket=bucket.name,
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "QueueArn": about["Attributes"]["QueueArn"],
                    "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
                }
            ]
        },
    )
    return bucket


def sqs_of(amazon: str) -> Any:
    return boto3.client(
        "sqs", endpoint_url=amazon, region_name="us-east-1", aws_access_key_id="key",
        aws_secret_access_key="secret",
    )  # fmt: skip


@asynccontextmanager
async def fetching(database_url: str, directory: Path, bucket: Bucket) -> AsyncIterator[Api]:
    async with (
        application(
            database_url, directory, worker=True, object_store_url=bucket.url(events="bucket"),
            notifications_url=f"sqs://123456789012/pulled?{KEYS}&endpoint={bucket.server}",
        ) as app,
        app.client() as client,
    ):  # fmt: skip
        # The schedule would do this within five seconds.
        await app.registry.get(Queue).enqueue(
            app.db, PULL, Nothing(), organization=None, key=PULL.name
        )
        yield Api(app, client)


async def test_what_the_bucket_tells_a_queue_reaches_the_library(
    database_url: str, tmp_path: Path, model: Scripted, bucket: Bucket
) -> None:
    async with fetching(database_url, tmp_path, bucket) as api:
        image = await api.stored(await api.upload("a b.jpg"))
        await api.settled("a b.jpg")
        told = await api.app.db.fetchrow("SELECT source, etag, size FROM object_events")
        assert told
        assert (told["source"], told["size"]) == ("s3", image["sizeBytes"])

        await again(bucket, told["etag"])  # as such queues do now and then
        await api.told("a b.jpg", "classification_workflow_skipped")
        assert (await api.types("a b.jpg")).count("classification_updated") == 1

        await asyncio.to_thread(
            bucket.client.delete_object, Bucket=bucket.name, Key="default/a b.jpg"
        )
        await api.gone("a b.jpg")
        assert await api.app.db.fetchval("SELECT count(*) FROM jobs WHERE status = 'dead'") == 0
        await still_waiting(api, bucket)
    # The worker did not wait for the queue, and left the job to the next one.
    connection = await Database.open(database_url, pool_size=1)
    left = await connection.fetchrow("SELECT status, attempts FROM jobs WHERE kind = $1", PULL.name)
    assert left
    assert (left["status"], left["attempts"]) == ("queued", 0)
    connection.terminate()


async def still_waiting(api: Api, bucket: Bucket) -> None:
    """It has answered for all there was, and waits for more."""
    client = sqs_of(bucket.server)
    queue = client.get_queue_url(QueueName="pulled")["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

    async def check() -> bool:
        about = await asyncio.to_thread(
            client.get_queue_attributes, QueueUrl=queue, AttributeNames=names
        )
        return set(about["Attributes"].values()) == {"0"}

    await until(check)
    running = "SELECT status FROM jobs WHERE kind = $1"
    assert await api.app.db.fetchval(running, PULL.name) == "running"


async def again(bucket: Bucket, etag: str) -> None:
    """The same once more."""
    body = sample.s3_records(sample.s3(key="default/a+b.jpg"))
    [record] = body["Records"]
    record["s3"]["bucket"]["name"] = bucket.name
    record["s3"]["object"] = {"key": "default/a+b.jpg", "eTag": etag}
    record["eventTime"] = "2026-01-05T09:07:03.120Z"
    client = sqs_of(bucket.server)
    queue = client.get_queue_url(QueueName="pulled")["QueueUrl"]
    await asyncio.to_thread(client.send_message, QueueUrl=queue, MessageBody=json.dumps(body))


async def test_a_queue_is_for_a_bucket_that_tells(
    database_url: str, tmp_path: Path, bucket: Bucket
) -> None:
    queue = f"sqs://123456789012/pulled?{KEYS}"
    for store in (bucket.url(), "local"):
        settings = load(
            {"data_dir": tmp_path, "object_store_url": store, "notifications_url": queue}
        )
        with pytest.raises(ConfigurationError, match="Add events=bucket to SAFELIGHT_OBJECT"):
            async with open_services(settings, database_url):
                pass
        await forget(database_url)


async def forget(database_url: str) -> None:
    db = await Database.open(database_url, pool_size=1)
    await db.execute("UPDATE identity SET bucket = NULL")
    db.terminate()


def test_it_is_looked_at_every_few_seconds_where_there_is_one() -> None:
    names = {schedule.kind.name for schedule in schedules(load())}
    assert PULL.name not in names
    queue = load({"notifications_url": "sqs://1/a?region=r"})
    [schedule] = [one for one in schedules(queue) if one.kind is PULL]
    assert (schedule.every, schedule.per_node) == (5, False)
    assert "region=r" not in repr(queue)
