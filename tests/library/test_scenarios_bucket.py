"""The same with a bucket whose notifications are the only events: their order is the test's."""

import asyncio
from collections.abc import AsyncIterator
from itertools import permutations
from pathlib import Path

import pytest

from harness import picture
from inprocess import application
from library.api import EVENTS_TOKEN, Api, Json, created, deleted
from library.scripted import Scripted, label_of
from objects.stores import Bucket, fresh_bucket
from safelight.testing.waiting import until
from seaweed import Seaweed

pytestmark = pytest.mark.usefixtures("quiet")
RED, BLUE = picture(colour="red"), picture(colour="blue")


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


@pytest.fixture
async def telling(
    database_url: str, tmp_path: Path, model: Scripted, bucket: Bucket
) -> AsyncIterator[Api]:
    async with (
        application(
            database_url, tmp_path, worker=True, events_token=EVENTS_TOKEN,
            object_store_url=bucket.url(events="bucket"),
        ) as app,
        app.client() as client,
    ):  # fmt: skip
        yield Api(app, client)


async def put(api: Api, bucket: Bucket, name: str, content: bytes, time: str) -> Json:
    """An upload that has reached the bucket, and what the bucket says of it."""
    await api.stored(await api.upload(name, content))
    found = await asyncio.to_thread(
        bucket.client.head_object, Bucket=bucket.name, Key=f"default/{name}"
    )
    return created(name, time, found["ETag"].strip('"'))


async def hear(api: Api, name: str, event: Json) -> None:
    """Tells of an event and waits until it has had its effect."""
    await api.tell(event)

    async def check() -> bool:
        waiting = "SELECT true FROM jobs WHERE kind = 'objects.deliver' AND payload ->> 'name' = $1"
        return not await api.app.db.fetchval(f"{waiting} LIMIT 1", name)

    await until(check)


async def test_events_out_of_order(telling: Api, bucket: Bucket) -> None:
    """The newest wins, whichever is heard first."""
    old = await put(telling, bucket, "a.jpg", RED, "2030-01-01T00:00:01.000Z")
    new = await put(telling, bucket, "a.jpg", BLUE, "2030-01-01T00:00:02.000Z")
    await hear(telling, "a.jpg", new)
    await hear(telling, "a.jpg", old)
    found = await telling.settled("a.jpg")
    assert found["classificationLabel"] == label_of(BLUE)
    assert found["eventTime"] == "2030-01-01T00:00:02.000Z"
    assert await telling.skipped("a.jpg") == ["stale"]


async def test_upload_delete_upload_in_every_order(telling: Api, bucket: Bucket) -> None:
    """All events twice, in each order: what counts is what the bucket holds."""

    async def life(number: int, order: tuple[int, ...]) -> None:
        name = f"{number}.jpg"
        first = await put(telling, bucket, name, RED, "2030-01-01T00:00:01.000Z")
        assert await telling.delete(name) == 202
        second = await put(telling, bucket, name, BLUE, "2030-01-01T00:00:03.000Z")
        events = (first, deleted(name, "2030-01-01T00:00:02.000Z"), second)
        for which in order:
            await hear(telling, name, events[which])

    orders = list(permutations(range(3)))
    await asyncio.gather(*(life(number, order * 2) for number, order in enumerate(orders)))
    await telling.idle()
    for number in range(len(orders)):
        found = await telling.entry(f"{number}.jpg")
        assert found
        assert found["classificationLabel"] == label_of(BLUE)
        assert (await telling.types(f"{number}.jpg")).count("classification_updated") == 1
        assert await telling.content(f"{number}.jpg") == BLUE


async def test_a_rule_of_the_bucket_removes_an_object(telling: Api, bucket: Bucket) -> None:
    event = await put(telling, bucket, "a.jpg", RED, "2030-01-01T00:00:01.000Z")
    await hear(telling, "a.jpg", event)
    await telling.settled("a.jpg")
    await asyncio.to_thread(bucket.client.delete_object, Bucket=bucket.name, Key="default/a.jpg")
    expired = deleted("a.jpg", "2030-01-02T00:00:00.000Z") | {"action": "LifecycleDeletion"}
    await hear(telling, "a.jpg", expired)
    assert await telling.entry("a.jpg") is None
    await hear(telling, "a.jpg", event)
    assert await telling.entry("a.jpg") is None


@pytest.mark.parametrize("late", ["replaced", "gone"])
async def test_a_late_write_takes_the_place_of_what_is_being_classified(
    database_url: str, tmp_path: Path, model: Scripted, bucket: Bucket, late: str
) -> None:
    """For a while the bucket holds what was beaten; the index knows better, and the run waits."""
    of = {"Bucket": bucket.name, "Key": "default/a.jpg"}
    async with (
        application(database_url, tmp_path, worker=True, object_store_url=bucket.url()) as app,
        app.client() as client,
    ):
        api, model.mood = Api(app, client), "wait"
        await api.upload("a.jpg", RED)
        gate, model.mood = await model.waiting.get(), "answer"
        held = await asyncio.to_thread(bucket.client.head_object, **of)
        if late == "replaced":
            other = {**held["Metadata"], "idempotencykey": "another"}
            await asyncio.to_thread(bucket.client.put_object, **of, Body=BLUE, Metadata=other)
        else:
            await asyncio.to_thread(bucket.client.delete_object, **of)
        gate.set_result("fail")

        async def looked_twice() -> bool:
            return len(await api.told("a.jpg", "run_attempt")) > 1

        await until(looked_twice)
        await asyncio.to_thread(bucket.client.put_object, **of, Body=RED, Metadata=held["Metadata"])
        assert (await api.settled("a.jpg"))["classificationLabel"] == label_of(RED)
