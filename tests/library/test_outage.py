"""An hour without the bucket and the model: everything waits, says so, and is done afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from emulators.workers_ai import Vendor, refusal, workers_ai
from faults.late_bucket import LateBucket, late_bucket
from harness import picture
from inprocess import application
from library.api import EVENTS_TOKEN, Api, Json, created
from objects.stores import Bucket, fresh_bucket
from safelight.classification.jobs import RUN
from safelight.infra.queue.jobs import HOUR, MINUTE
from safelight.infra.queue.queue import Queue
from safelight.testing.waiting import until
from seaweed import Seaweed

pytestmark = pytest.mark.usefixtures("quiet")
IMAGES = "/api/organizations/default/images"
KINDS = ("classification.run", "ingest.offload", "objects.deliver")


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with workers_ai() as vendor:
        yield vendor


@pytest.fixture
def bucket(weed: Seaweed) -> Bucket:
    return fresh_bucket(weed)


@pytest.fixture
def late(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[LateBucket]:
    monkeypatch.setattr("safelight.objects.bucket._RETRY", timedelta(milliseconds=1))
    with late_bucket(bucket.server) as late:
        yield late


@pytest.fixture
async def api(
    database_url: str, tmp_path: Path, bucket: Bucket, late: LateBucket, vendor: Vendor
) -> AsyncIterator[Api]:
    there = Bucket(late.address, bucket.name, bucket.client)
    async with (
        application(
            database_url, tmp_path, worker=True, events_token=EVENTS_TOKEN,
            object_store_url=there.url(events="bucket"),
            classifier="workers-ai", workers_ai_url=vendor.url,
        ) as app,
        app.client() as client,
    ):  # fmt: skip
        yield Api(app, client)


async def pass_time(api: Api, seconds: float) -> int:
    """Until everything that waits has waited so long; how often something was tried meanwhile."""
    passed, tries = 0.0, 0
    while passed < seconds:
        await until(lambda: _all_wait(api))
        # Deliveries and runs set the pace; what waits for less is tried beside them.
        step: float = await api.app.db.fetchval(
            "SELECT greatest(extract(epoch FROM min(run_at) - clock_timestamp()), 0.001)::float8 "
            "FROM jobs WHERE kind IN ('objects.deliver', 'classification.run')"
        )
        await api.app.db.execute(
            "UPDATE jobs SET run_at = run_at - make_interval(secs => $1) WHERE kind = ANY ($2)",
            step,
            KINDS,
        )
        api.app.registry.get(Queue).wake()
        passed, tries = passed + step, tries + 1
    await until(lambda: _all_wait(api))
    return tries


async def _all_wait(api: Api) -> bool:
    at_work = (
        "SELECT count(*) FROM jobs "
        "WHERE kind = ANY ($1) AND (status <> 'delayed' OR run_at <= clock_timestamp())"
    )
    return not await api.app.db.fetchval(at_work, KINDS)


async def put(api: Api, bucket: Bucket, name: str) -> Json:
    """An upload that has reached the bucket, and what the bucket says of it."""
    await api.stored(await api.upload(name, picture()))
    return await told_of(bucket, name)


async def told_of(bucket: Bucket, name: str) -> Json:
    key = f"default/{name}"
    found = await asyncio.to_thread(bucket.client.head_object, Bucket=bucket.name, Key=key)
    return created(name, "2031-01-01T00:00:00.000Z", found["ETag"].strip('"'))


async def delayed(api: Api) -> dict[str, int]:
    """By kind, as the operator sees it."""
    answer = (await api.client.get("/api/v1/admin/queue/status")).json()
    return {row["name"]: row["delayed"] for row in answer["queues"] if row["name"] in KINDS}


async def record_of(api: Api, image: Json) -> Json:
    found: Json = (await api.client.get(f"/api/images/{image['imageId']}")).json()
    return found


async def test_an_hour_without_bucket_and_model(
    api: Api, bucket: Bucket, late: LateBucket, vendor: Vendor
) -> None:
    vendor.instead = refusal(503, 3040, retry_after="1")
    waits_for_the_model, waits_for_the_bucket = [
        await put(api, bucket, name) for name in ("model.jpg", "bucket.jpg")
    ]
    await api.tell(waits_for_the_model)
    await api.told("model.jpg", "classification_error")
    late.away = True
    await api.tell(waits_for_the_bucket)
    image = await api.upload("file.jpg", picture())

    tries = await pass_time(api, HOUR)

    assert 8 <= tries <= 60, "waits that do not grow, or nobody looked"
    assert await delayed(api) == dict.fromkeys(KINDS, 1)
    entry = await api.entry("model.jpg")
    assert entry
    assert (entry["classificationStatus"], "failure" in entry) == ("pending", False)
    assert entry["nextAttemptAt"]
    shown = json.dumps(await api.story("model.jpg")) + json.dumps(entry)
    assert entry["lastError"]["message"]
    assert late.address.removeprefix("http://") not in shown, "where the store is, is nobody's news"
    record = await record_of(api, image)
    assert record["status"] == "INGESTED"
    assert record["nextAttemptAt"]
    assert record["lastError"]["code"] == "UNAVAILABLE"
    assert late.address.removeprefix("http://") not in json.dumps(record)
    [listed] = (await api.client.get(IMAGES, params={"status": "INGESTED"})).json()["items"]
    assert listed == record
    letters = (await api.client.get("/api/v1/admin/dead-letters")).json()["items"]
    assert letters == []
    # However long it lasts, what happens is told once.
    assert len(await api.messages("classification_error")) == 1

    late.away, vendor.instead = False, None
    await api.hurry()
    await api.stored(image)
    assert not {"nextAttemptAt", "lastError"} & (await record_of(api, image)).keys()
    await api.tell(await told_of(bucket, "file.jpg"))
    for name in ("model.jpg", "bucket.jpg", "file.jpg"):
        found = await api.settled(name)
        assert found["classificationLabel"] == "PERSIAN CAT"
        assert "nextAttemptAt" not in found
        assert len(found["labels"]) == 5
    letters = (await api.client.get("/api/v1/admin/dead-letters")).json()["items"]
    assert letters == []


async def test_runs_that_wait_while_the_bucket_is_away_spend_nothing(
    api: Api, bucket: Bucket, late: LateBucket, vendor: Vendor
) -> None:
    vendor.instead = refusal(503, 3040, retry_after="1")
    names = [f"{number}.jpg" for number in range(6)]
    await api.tell(*[await put(api, bucket, name) for name in names])
    await until(lambda: _runs(api, len(names)))
    late.away, vendor.instead = True, None

    await pass_time(api, MINUTE)

    assert await _runs(api, len(names))
    status = (await api.client.get("/api/v1/admin/queue/status")).json()["queues"]
    assert {row["name"]: row["away"] for row in status}[RUN.name] == len(names)
    page = (await api.client.get("/admin/queue", headers={"accept": "text/html"})).text
    assert f"{len(names)} wait for what is away, and spend no attempt" in page
    late.away = False
    await api.hurry()
    for name in names:
        await api.settled(name)
    assert await api.letters() == []


async def _runs(api: Api, count: int) -> bool:
    """Whether so many wait, none of which has spent an attempt."""
    waiting = (
        "SELECT count(*) FROM jobs WHERE kind = $1 AND status = 'delayed' AND attempts = 0 "
        "AND waits > 0"
    )
    return bool(await api.app.db.fetchval(waiting, RUN.name) == count)


async def test_after_a_day_a_person_is_asked(api: Api, bucket: Bucket, vendor: Vendor) -> None:
    vendor.instead = refusal(401, 10000, "Authentication error")
    await api.tell(await put(api, bucket, "a.jpg"))
    await api.told("a.jpg", "classification_error")
    await pass_time(api, MINUTE)
    entry = await api.entry("a.jpg")
    assert entry
    assert "SAFELIGHT_WORKERS_AI_TOKEN" in entry["lastError"]["message"]
    day = next(waits for waits in range(1000) if not RUN.retry.patient(waits))
    await api.app.db.execute("UPDATE jobs SET waits = $1 WHERE kind = $2", day, RUN.name)
    await api.hurry()
    found = await api.settled("a.jpg", "failed")
    [letter] = await api.letters()
    assert found["failure"] == letter["error"]
    vendor.instead = None
    assert await api.redrive(letter) == 202
    await api.settled("a.jpg")


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_bytes_that_do_not_come_are_told_soon(
    api: Api, bucket: Bucket, late: LateBucket, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The bucket takes the question, and says nothing."""
    await put(api, bucket, "a.jpg")
    held = late.hold(method, "default/a.jpg", answer=None)
    with monkeypatch.context() as impatient:
        impatient.setattr("safelight.http.content.FIRST_BYTE_SECONDS", 1.0)
        path = "/api/organizations/default/uploads/a.jpg/content"
        answer = await api.client.get(path, headers={"if-none-match": "nothing"})
    assert held.requests
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert "bytes" in answer.json()["error"]
    late.let_through()
    held.release()
    assert await api.content("a.jpg") == picture()
