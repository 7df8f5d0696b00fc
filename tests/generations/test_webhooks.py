"""Videos: nothing runs until the webhook or the timer, whatever comes first, how often, and when."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulators.media import MP4
from emulators.replicate import Plan as Prediction
from emulators.replicate import Replicate
from emulators.runware import Plan, Runware
from generations.world import Client, World, world
from safelight.testing.waiting import until

Here = dict[str, Any]
ODD_BODIES: list[Any] = [
    None, 5, [], {}, {"data": 7}, {"data": [7, None]}, {"errors": [[]]},
]  # fmt: skip
VIDEO = {"kind": "video", "model": "runware:501@1"}


@pytest.fixture
def here(database_url: str, directory: Path, vendor: Runware) -> Here:
    return {"database_url": database_url, "directory": directory, **vendor.settings}


async def waiting(made: World, client: Client, vendor: Runware, **wanted: Any) -> str:
    """A video that the vendor works on; nothing of ours runs."""
    vendor.default = Plan(gate=asyncio.Event())
    generation = await client.ask(**VIDEO, **wanted)
    idle = "SELECT count(*) = 1 FROM jobs"  # the timer

    async def settled() -> bool:
        taken = all(
            task["status"] == "submitted" for task in (await client.show(generation))["tasks"]
        )
        return taken and bool(await made.db.fetchval(idle))

    await until(settled)
    return generation


async def time_runs_out(made: World) -> None:
    await made.db.execute("UPDATE jobs SET run_at = now() WHERE kind = 'generations.alarm'")
    made.queue.wake()


async def one_artifact(client: Client, generation: str) -> dict[str, Any]:
    done = await client.over(generation)
    assert (done["status"], done["artifactCount"]) == ("ready", 1)
    [artifact] = await client.items(f"/generations/{generation}/artifacts")
    assert artifact["contentType"] == "video/mp4"
    assert artifact["sizeBytes"] == len(MP4)
    return artifact


async def test_once(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        [task] = vendor.submitted
        assert task["deliveryMethod"] == "async"
        assert task["taskType"] == "videoInference"
        assert f"generation_id={generation}" in task["webhookURL"]
        async with httpx.AsyncClient(trust_env=False) as http:
            body = {"data": [vendor.result(task["taskUUID"])]}
            answer = await http.post(task["webhookURL"], json=body)
        assert (answer.status_code, answer.content) == (200, b"")
        await one_artifact(client, generation)
        assert await made.db.fetchval("SELECT NOT EXISTS (SELECT FROM jobs)")


async def test_three_times_at_the_same_moment(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        assert await vendor.call_back(vendor.submitted[0], 3) == [200, 200, 200]
        await one_artifact(client, generation)
        story = await client.story(generation)
        assert story.count("webhook_accepted") == 1
        items = await client.items(f"/generations/{generation}/history")
        reasons = [item["reason"] for item in items if item["type"] == "webhook_ignored"]
        assert reasons
        assert len(set(reasons)) == len(reasons), "each is told once, however often it comes"
        assert story.count("artifact_ready") == 1


async def test_before_the_call_has_returned(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(early=True, callbacks=2)
    async with world(**here) as made, made.client() as client:
        generation = await client.ask(**VIDEO)
        await one_artifact(client, generation)
        assert vendor.told == [200, 200]


async def test_the_call_is_lost_but_the_webhook_comes(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(early=True, lose_answer=True)
    async with world(**here) as made, made.client() as client:
        await one_artifact(client, await client.ask(**VIDEO))
    assert len(vendor.submitted) == 1


async def test_several_tasks_out_of_order(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor, count=3)
        for task in reversed(vendor.submitted):
            assert await vendor.call_back(task) == [200]
        done = await client.over(generation)
        assert done["artifactCount"] == 3
        uuids = {one["metadata"]["providerTaskId"] for one in await client.items("/artifacts")}
        assert uuids == {task["taskUUID"] for task in vendor.submitted}


async def test_an_error_marks_its_task(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor, count=2)
        first, second = vendor.submitted
        error = {"code": "timeoutProvider", "message": "too slow", "taskUUID": first["taskUUID"]}
        await vendor.call_back(first, body={"errors": [error]})
        await vendor.call_back(second)
        done = await client.over(generation)
        failed = [task["error"] for task in done["tasks"] if task["error"]]
        assert done["artifactCount"] == 1
        assert [error["code"] for error in failed] == ["provider_error"]


async def test_after_the_timeout(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        await time_runs_out(made)
        done = await client.over(generation)
        assert done["tasks"][0]["error"]["code"] == "timeout"
        [task] = vendor.submitted
        assert vendor.asked == [task["taskUUID"]]  # once, before it was given up
        assert await vendor.call_back(task) == [200]
        assert await client.show(done["id"]) == done
        assert (await client.story(done["id"]))[-1] == "webhook_ignored"
        assert await client.items("/artifacts") == []


async def test_never_called_but_done_when_asked(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        vendor.done.add(vendor.submitted[0]["taskUUID"])
        await time_runs_out(made)
        await one_artifact(client, generation)
        assert "generation_timed_out" in await client.story(generation)


async def test_strangers_and_nonsense(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        other = await client.ask(**VIDEO)
        await until(lambda: len(vendor.submitted) == 2)
        mine, body = vendor.submitted[0], {"data": [vendor.result(vendor.submitted[0]["taskUUID"])]}
        base = f"{made.url}/webhooks/runware"
        token, theirs = made.addresses.token(generation), made.addresses.token(other)
        assert len(token) == 43
        cases = [
            (f"{base}?generation_id={generation}&token={'x' * 43}", 404),
            (f"{base}?generation_id={generation}&token={'x' * 5000}", 404),
            (f"{base}?generation_id={generation}", 404),
            (f"{base}?token={token}", 404),
            (base, 404),
            (f"{base}?generation_id={generation}&token={theirs}", 404),
            (f"{base}?generation_id=0190-none&token={token}", 404),
            (f"{made.url}/webhooks/nobody?generation_id={generation}&token={token}", 404),
            (f"{made.url}/webhooks/replicate?generation_id={generation}&token={token}", 404),
        ]
        async with httpx.AsyncClient(trust_env=False) as http:
            for url, status in cases:
                answer = await http.post(url, json=body)
                assert (answer.status_code, answer.json()["code"]) == (status, "NOT_FOUND"), url
            good = f"{base}?generation_id={generation}&token={token}"
            for content in (b"", b"not json", b'{"data":', b"\xff\xfe", b"[" * 100_000):
                answer = await http.post(good, content=content)
                assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_JSON")
            nobody = made.addresses.token("0190-none")
            gone = await http.post(f"{base}?generation_id=0190-none&token={nobody}", json=body)
            assert (gone.status_code, gone.content) == (200, b"")
            for odd in ODD_BODIES:
                answer = await http.post(good, content=json.dumps(odd))
                assert answer.status_code == 200, odd
            # Another generation's token and task, our task's id in the body: nothing of ours moves.
            crossed = f"{base}?generation_id={other}&token={theirs}&task=x"
            assert (await http.post(crossed, json=body)).status_code == 200
        assert (await client.show(generation))["tasks"][0]["status"] == "submitted"
        assert await vendor.call_back(mine) == [200]
        await one_artifact(client, generation)
        assert (await client.show(other))["status"] == "active"


async def test_a_purged_generation(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        await vendor.call_back(vendor.submitted[0])
        done = await client.over(generation)
        await made.db.execute("DELETE FROM generations_inflight")
        assert await vendor.call_back(vendor.submitted[0]) == [200]
        assert await client.show(generation) == done
        assert (await client.story(generation))[-1] == "webhook_ignored"


async def test_a_replay_is_told_of_once(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        generation = await waiting(made, client, vendor)
        await vendor.call_back(vendor.submitted[0])
        await one_artifact(client, generation)
        for _ in range(3):
            await vendor.call_back(vendor.submitted[0], 2)
        token = made.addresses.token(generation)
        base = f"{made.url}/webhooks/runware?generation_id={generation}&token={token}"
        async with httpx.AsyncClient(trust_env=False) as http:
            for name in ("x", "y", "%00", "%ED%A0%80", "z" * 3000):
                answer = await http.post(f"{base}&task={name}", json={"data": []})
                assert answer.status_code == 200, name
        assert (await client.story(generation)).count("webhook_ignored") == 2
        await made.db.execute("DELETE FROM generations_inflight")
        for _ in range(3):
            assert await vendor.call_back(vendor.submitted[0]) == [200]
        assert (await client.story(generation)).count("webhook_ignored") == 3


async def test_a_signature_is_asked_for(
    database_url: str, directory: Path, predictor: Replicate
) -> None:
    predictor.plan = Prediction(never=True)
    here = {"database_url": database_url, "directory": directory, **predictor.settings}
    async with world(**here) as made, made.client() as client:
        generation = await client.ask("acme/film", kind="video")
        await until(lambda: predictor.predictions)
        assert await predictor.call_back("pred1", secret="whsec_" + "d3Jvbmc=") == [404]
        assert await predictor.call_back("pred1", age=3600) == [404]
        async with httpx.AsyncClient(trust_env=False) as http:
            url = predictor.predictions["pred1"]["webhook"]
            unsigned = await http.post(url, json=predictor.prediction("pred1"))
        assert unsigned.status_code == 404
        assert (await client.show(generation))["status"] == "active"
        assert await predictor.call_back("pred1", 3) == [200, 200, 200]
        await one_artifact(client, generation)


async def test_cancelling_tells_the_vendor(
    database_url: str, directory: Path, predictor: Replicate
) -> None:
    predictor.plan = Prediction(never=True)
    here = {"database_url": database_url, "directory": directory, **predictor.settings}
    async with world(**here) as made, made.client() as client:
        generation = await client.ask("acme/film:abc123", kind="video", count=2)

        async def known() -> bool:
            rows = await made.db.fetch("SELECT provider_task_id FROM generation_tasks")
            return all(row["provider_task_id"] for row in rows)

        await until(known)
        await client.http.post(f"/generations/{generation}/cancel")
        assert (await client.show(generation))["status"] == "failed"
        await until(lambda: sorted(predictor.cancelled) == ["pred1", "pred2"])
    assert predictor.created[0]["version"] == "abc123"


async def test_cancelling_while_the_vendor_takes_the_task(
    database_url: str, directory: Path, predictor: Replicate
) -> None:
    predictor.plan = Prediction(never=True, seconds=0.6)
    async with (
        world(database_url, directory, **predictor.settings) as made,
        made.client() as client,
    ):
        generation = await client.ask("acme/film", kind="video")
        await until(lambda: predictor.created)
        await client.http.post(f"/generations/{generation}/cancel")
        assert (await client.show(generation))["status"] == "failed"
        await until(lambda: predictor.cancelled == ["pred1"])
