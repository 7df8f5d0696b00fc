"""Generations from the request to the artifacts, against a vendor that behaves well and badly."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from emulators.media import png
from emulators.runware import Plan, Runware
from generations.world import Client, world
from safelight.generations.jobs import work
from safelight.infra.injected import SystemClock
from safelight.infra.queue.jobs import Failure, Job, JobId
from safelight.testing.injected import Watch
from safelight.testing.waiting import until

Here = dict[str, Any]
LIMIT = 300  # seconds that an image has


@pytest.fixture
def here(database_url: str, directory: Path, vendor: Runware) -> Here:
    return {"database_url": database_url, "directory": directory, **vendor.settings}


async def ask_one(client: Client, **wanted: Any) -> dict[str, Any]:
    return await client.over(await client.ask(**wanted))


async def test_four_tasks_four_fates(here: Here, vendor: Runware) -> None:
    """One refused, one slow, one turned away once, one fine: three artifacts, the error kept."""
    vendor.plans = {
        10: Plan(refuse="contentPolicyViolation"),
        11: Plan(seconds=1.0),
        12: Plan(statuses=[429], retry_after="1"),
        13: Plan(),
    }
    async with world(**here) as made, made.client() as client:
        wanted = {"prompt": "kites", "seed": 10}
        generation = await client.ask(count=4, input=wanted, tags=["red", "wind"])
        active = await client.show(generation)
        assert (active["status"], active["tags"]) == ("active", ["red", "wind"])
        done = await client.over(generation)
        assert (done["status"], done["artifactCount"], done["cost"]) == ("ready", 3, 0.0039)
        assert done["progress"] == {"ready": 3, "failed": 1, "total": 4}
        assert [task["status"] for task in done["tasks"]] == ["failed", "ready", "ready", "ready"]
        assert done["tasks"][0]["error"]["code"] == "refused"
        artifacts = await client.items(f"/generations/{generation}/artifacts")
        assert {one["metadata"]["seed"] for one in artifacts} == {11, 12, 13}
        story = await client.story(generation)
        assert (story[0], story[-1]) == ("generation_started", "generation_finished")
        assert (story.count("artifact_ready"), story.count("artifact_failed")) == (3, 1)
        assert story.count("task_attempt") == 1
        assert len(vendor.submitted) == 5


async def test_all_refused(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(refuse="invalidPositivePrompt")
    async with world(**here) as made, made.client() as client:
        done = await ask_one(client, count=3, tags=["sad"])
        assert (done["status"], done["artifactCount"], done["tags"]) == ("failed", 0, ["sad"])
        assert [task["error"]["code"] for task in done["tasks"]] == ["refused"] * 3
        assert "invalidPositivePrompt" in done["tasks"][0]["error"]["message"]
        assert len(vendor.submitted) == 3
        assert [one["id"] for one in await client.items("/generations")] == [done["id"]]


async def test_what_the_vendor_is_sent(here: Here, vendor: Runware) -> None:
    hostile = {
        "prompt": "a kite", "seed": 5, "steps": 20, "height": 512,
        "taskType": "x", "taskUUID": "x", "numberResults": 9, "webhookURL": "http://evil",
        "deliveryMethod": "async", "uploadEndpoint": "http://evil", "model": "x",
    }  # fmt: skip
    async with world(**here) as made, made.client() as client:
        done = await ask_one(client, count=2, input=hostile)
        assert done["input"] == hostile
    first, second = sorted(vendor.submitted, key=lambda task: task["seed"])
    assert (first["seed"], second["seed"]) == (5, 6)
    assert first["taskUUID"] != second["taskUUID"]
    assert len(first["taskUUID"]) == 36
    assert first["taskUUID"][14] == "4"
    del first["taskUUID"]
    assert first == {
        "taskType": "imageInference", "model": "runware:100@1", "positivePrompt": "a kite",
        "seed": 5, "steps": 20, "width": 1024, "height": 512, "numberResults": 1,
        "deliveryMethod": "sync", "outputType": "URL", "includeCost": True,
    }  # fmt: skip


async def test_the_artifact_and_its_bytes(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        done = await ask_one(client, input={"prompt": "p", "seed": 3})
        [artifact] = await client.items("/artifacts", generationId=done["id"])
        assert artifact["contentType"] == "image/png"
        assert artifact["sizeBytes"] == len(png())
        assert artifact["checksum"] == hashlib.sha256(png()).hexdigest()
        metadata = artifact["metadata"]
        assert (metadata["cost"], metadata["seed"], metadata["width"]) == (0.0013, 3, 96)
        assert (metadata["provider"], metadata["model"]) == ("runware", "runware:100@1")
        assert metadata["providerTaskId"] == vendor.submitted[0]["taskUUID"]
        path = f"/artifacts/{artifact['id']}"
        assert (await client.http.get(path)).json() == artifact
        content = await client.http.get(f"{path}/content")
        assert content.content == png()
        assert content.headers["content-type"] == "image/png"
        tag = content.headers["etag"]
        again = await client.http.get(f"{path}/content", headers={"if-none-match": tag})
        assert again.status_code == 304
        part = await client.http.get(f"{path}/content", headers={"range": "bytes=1-3"})
        assert (part.status_code, part.content) == (206, b"PNG")
        head = await client.http.head(f"{path}/content")
        assert (head.status_code, head.headers["content-length"]) == (200, str(len(png())))


async def test_results_sent_inline(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(inline=True)
    async with world(**here) as made, made.client() as client:
        done = await ask_one(client)
        [artifact] = await client.items(f"/generations/{done['id']}/artifacts")
        content = await client.http.get(f"/artifacts/{artifact['id']}/content")
        assert content.content == png()


async def test_a_lost_answer_is_asked_for_not_paid_again(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(lose_answer=True)
    async with world(**here) as made, made.client() as client:
        done = await ask_one(client)
        assert done["status"] == "ready"
    assert len(vendor.submitted) == 1
    assert vendor.asked == [vendor.submitted[0]["taskUUID"]]


async def test_a_task_the_vendor_does_not_know_gets_a_new_id(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(statuses=[500])
    async with world(**here) as made, made.client() as client:
        assert (await ask_one(client))["status"] == "ready"
    first, second = (task["taskUUID"] for task in vendor.submitted)
    assert first != second
    assert vendor.asked == [first]


async def test_artifacts_appear_one_by_one(here: Here, vendor: Runware) -> None:
    gate = asyncio.Event()
    vendor.plans = {1: Plan(gate=gate)}
    async with world(**here) as made, made.client() as client:
        generation = await client.ask(count=2, input={"prompt": "p", "seed": 0})
        path = f"/generations/{generation}/artifacts"
        [early] = await until(lambda: client.items(path))
        active = await client.show(generation)
        assert active["status"] == "active"
        assert active["artifactCount"] == 1
        assert active["progress"] == {"ready": 1, "failed": 0, "total": 2}
        assert (active["completedAt"], early["generationId"]) == (None, generation)
        assert await client.items("/generations") == []
        assert [one["id"] for one in await client.items("/generations", status="active")] == [
            generation
        ]
        gate.set()
        assert (await client.over(generation))["artifactCount"] == 2
        assert await client.items("/generations", status="active") == []


BAD_MEDIA = [
    ("html", "fetch_refused"),
    ("compressed", "fetch_refused"),
    ("redirect", "fetch_refused"),
    ("huge", "too_large"),
    ("endless", "too_large"),
    ("missing", "provider_error"),
]


async def test_media_that_is_not_kept(here: Here, vendor: Runware) -> None:
    vendor.other = "http://169.254.169.254/latest/meta-data/"
    vendor.plans = {seed: Plan(media=[how]) for seed, (how, _) in enumerate(BAD_MEDIA)}
    async with world(**here, artifact_max_bytes=1_000_000) as made, made.client() as client:
        wanted = {"prompt": "p", "seed": 0}
        done = await ask_one(client, count=len(BAD_MEDIA), input=wanted)
        assert done["status"] == "failed"
        codes = [(BAD_MEDIA[at][0], task["error"]["code"]) for at, task in enumerate(done["tasks"])]
        assert codes == BAD_MEDIA
        assert await client.items("/artifacts") == []
        assert list(await made.store.list("artifacts/")) == []


async def test_media_that_is_kept_after_all(here: Here, vendor: Runware) -> None:
    """Cut off half-way, broken, or with a lie about its type."""
    vendor.plans = {
        0: Plan(media=["cut", "fine"]),
        1: Plan(media=["broken", "fine"]),
        2: Plan(media=["lie"]),
    }
    async with world(**here) as made, made.client() as client:
        done = await ask_one(client, count=3, input={"prompt": "p", "seed": 0})
        assert done["progress"] == {"ready": 3, "failed": 0, "total": 3}
        kinds = {one["contentType"] for one in await client.items("/artifacts")}
        assert kinds == {"image/png"}
    assert len(vendor.submitted) == 3


@pytest.fixture
def watch() -> Watch:
    """Time passes when a test says so, however busy the machine is."""
    return Watch(SystemClock().now_ms())


async def test_time_runs_out(here: Here, vendor: Runware, watch: Watch) -> None:
    """One never answered, one whose file never ends, one in time: the artifact is kept."""
    never = asyncio.Event()
    vendor.plans = {0: Plan(gate=never), 1: Plan(media=["stalled"]), 2: Plan()}
    async with world(**here, clock=watch) as made, made.client() as client:
        generation = await client.ask(count=3, input={"prompt": "p", "seed": 0})

        async def as_far_as_they_get() -> bool:
            tasks = (await client.show(generation))["tasks"]
            return [task["status"] for task in tasks] == ["submitted", "streaming", "ready"]

        await until(as_far_as_they_get)
        watch.move(seconds=LIMIT)
        await made.ring()
        await made.closes()
        watch.move(seconds=LIMIT)
        await made.ring()
        done = await client.over(generation)
        assert done["status"] == "ready"
        codes = [task["error"] and task["error"]["code"] for task in done["tasks"]]
        assert codes == ["timeout", "timeout", None]
        assert "generation_timed_out" in await client.story(generation)
        idle = "SELECT NOT EXISTS (SELECT FROM jobs)"
        assert await until(lambda: made.db.fetchval(idle))


async def test_done_when_asked_while_the_call_is_held(
    here: Here, vendor: Runware, watch: Watch
) -> None:
    """The vendor has it, and keeps the connection open for nothing: the last question gets it."""
    held = asyncio.Event()
    vendor.default = Plan(gate=held, lose_answer=True)
    async with world(**here, clock=watch) as made, made.client() as client:
        generation = await client.ask()
        await until(lambda: vendor.working)
        vendor.done.add(vendor.submitted[0]["taskUUID"])
        watch.move(seconds=LIMIT)
        await made.ring()
        await made.closes()
        held.set()
        done = await client.over(generation)
        assert (done["status"], done["artifactCount"]) == ("ready", 1)
        assert len(vendor.submitted) == len(vendor.asked) == 1


async def test_ten_are_held_when_time_is_over(here: Here, vendor: Runware, watch: Watch) -> None:
    """Calls that are still open do not speak for their tasks: what is done by then is kept, and what
    is not ran out of time."""
    held = asyncio.Event()
    vendor.default = Plan(gate=held, lose_answer=True)
    async with world(**here, clock=watch) as made, made.client() as client:
        generation = await client.ask(count=10)
        await until(lambda: vendor.working == 10)
        vendor.done.update(order["taskUUID"] for order in vendor.submitted[:3])
        watch.move(seconds=LIMIT)
        await made.ring()
        await made.closes()
        held.set()
        done = await client.over(generation)
        codes = Counter(task["error"] and task["error"]["code"] for task in done["tasks"])
        assert codes == {None: 3, "timeout": 7}
        assert done["artifactCount"] == 3


async def test_a_vendor_that_is_away(here: Here, watch: Watch) -> None:
    here["runware_url"] = "http://127.0.0.1:9/v1"
    async with world(**here, clock=watch) as made, made.client() as client:
        generation = await client.ask()
        await client.troubled(generation)
        watch.move(seconds=LIMIT - 1)  # not enough for one more try after the next
        done = await client.over(generation)
        assert done["status"] == "failed"
        error = done["tasks"][0]["error"]
        assert error["code"] == "provider_error"
        assert "could not be reached" in error["message"]


async def test_cancelling(here: Here, vendor: Runware) -> None:
    gate = asyncio.Event()
    vendor.plans = {1: Plan(gate=gate), 2: Plan(media=["stalled"])}
    async with world(**here) as made, made.client() as client:
        generation = await client.ask(count=3, input={"prompt": "p", "seed": 0})
        await until(lambda: client.items("/artifacts"))
        answer = await client.http.post(f"/generations/{generation}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "ready")
        codes = [task["error"] and task["error"]["code"] for task in answer.json()["tasks"]]
        assert codes == [None, "cancelled", "cancelled"]
        again = await client.http.post(f"/generations/{generation}/cancel")
        assert (again.status_code, again.json()) == (200, answer.json())
        # The work stops at once, and what still comes is not kept.
        await until(lambda: made.db.fetchval("SELECT NOT EXISTS (SELECT FROM jobs)"), 5)
        gate.set()
        assert len(await client.items("/artifacts")) == 1
        assert (await client.http.post("/generations/nobody/cancel")).status_code == 404


async def test_spending(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        await ask_one(client, count=2)
        await ask_one(client)
        spent = (await client.http.get("/api/organizations/acme/spending")).json()
        assert spent["total"] == 0.0039
        assert spent["providers"] == [
            {"provider": "runware", "generations": 2, "artifacts": 3, "cost": 0.0039}
        ]
        later = await client.http.get("/api/organizations/acme/spending?since=9000000000000")
        assert later.json()["total"] == 0
        other = await client.http.get("/api/organizations/globex/spending")
        assert other.status_code == 404


async def test_no_more_calls_at_once_than_set(here: Here, vendor: Runware) -> None:
    async with held(here, vendor, 2, generation_concurrency=2) as client:
        assert (await ask_one(client, count=7))["artifactCount"] == 7
    assert vendor.most == 2


async def test_without_a_limit_in_the_way_all_run_together(here: Here, vendor: Runware) -> None:
    async with held(here, vendor, 20) as client:
        assert (await ask_one(client, count=20))["artifactCount"] == 20
    assert vendor.most == 20


@asynccontextmanager
async def held(here: Here, vendor: Runware, count: int, **values: Any) -> AsyncIterator[Client]:
    """Calls are answered once so many are there at the same time."""
    gate = asyncio.Event()
    vendor.default = Plan(gate=gate)

    async def let_go() -> None:
        await until(lambda: vendor.working >= count)
        gate.set()

    async with world(**here, **values) as made, made.client() as client:
        letting = asyncio.create_task(let_go())
        yield client
        await letting


async def test_a_key_that_was_taken_away(here: Here, vendor: Runware) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        generation = await client.ask()
    del here["runware_api_key"]
    async with world(**here) as made, made.client() as client:
        done = await client.over(generation)
        assert done["tasks"][0]["error"]["code"] == "provider_error"
    assert vendor.submitted == []


async def test_a_job_that_dies_takes_its_task_along(here: Here) -> None:
    """As when its worker is killed every time: the generation ends all the same."""
    async with world(**here, worker=False) as made, made.client() as client:
        generation = await client.ask()
        kind = work("runware")
        [handler] = [one for one in made.generations.handlers if one.kind is kind]
        row = await made.db.fetchrow(
            "UPDATE jobs SET status = 'running', claim = 1, owner = 'gone', lease_until = now() "
            "WHERE kind = $1 RETURNING id, payload",
            kind.name,
        )
        assert row is not None
        job = Job(JobId(row["id"]), kind, "acme", row["payload"], 1, 21)
        assert await made.queue.dead_letters.bury(handler, job, Failure("WORKER_DIED", "It died."))
        done = await client.show(generation)
        assert (done["status"], done["tasks"][0]["error"]["message"]) == ("failed", "It died.")
        story = await client.story(generation)
        assert {"job_dead", "artifact_failed", "generation_finished"} <= set(story)
