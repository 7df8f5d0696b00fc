"""Clips need no address: not a server's own, and none at all beside a worker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from conftest import _clone as clone
from conftest import with_database
from generations.world import world
from harness import Server, await_ready, free_port, launch
from library.processes import Workers
from safelight.generations.jobs import DELIVER
from safelight.infra.queue.jobs import Done, Failure
from safelight.testing.hands import Hands
from safelight.testing.waiting import eventually

NOBODY = "http://127.0.0.1:9"
CLIP = {"width": 64, "height": 64, "duration": 0.2}


def a_clip(server: Server) -> Any:
    """As it is when it has ended."""
    wanted = {"model": "studio/aurora", "kind": "video", "input": CLIP}
    with server.client() as client:
        made = client.post("/generations", json=wanted).json()["id"]

        def ended() -> Any:
            shown = client.get(f"/generations/{made}").json()
            return shown if shown["completedAt"] else None

        return eventually(ended)


@pytest.mark.process
def test_clips_of_a_worker_that_reaches_no_server(model_url: str, tmp_path: Path) -> None:
    """It knows of the public address only, and perhaps stands on another machine."""
    asyncio.run(clone(model_url, "working"))
    url, public = with_database(model_url, "working"), {"SAFELIGHT_PUBLIC_URL": NOBODY}
    environment = {"SAFELIGHT_DATABASE_URL": url, **public}
    port = free_port()
    server = launch(tmp_path, "--no-worker", "--port", str(port), environment=environment)
    workers = Workers(url, tmp_path, public)
    try:
        await_ready(server).url = f"http://127.0.0.1:{port}"
        workers.start()
        eventually(lambda: "working" in workers.said(), 50)
        assert a_clip(server)["status"] == "ready", workers.said()
    finally:
        workers.stop()
        server.stop()


async def test_clips_need_nobody_who_can_be_called(database_url: str, directory: Path) -> None:
    """Whoever runs the job tells the owner, once, without a call over HTTP."""
    async with world(database_url, directory, public_url=NOBODY) as made, made.client() as client:
        done = await client.over(await client.ask("studio/aurora", kind="video", input=CLIP))
        assert (done["status"], done["artifactCount"]) == ("ready", 1)
        assert (await client.story(done["id"])).count("webhook_accepted") == 1


async def test_a_clip_that_is_told_of_again_is_there_once(
    database_url: str, directory: Path
) -> None:
    """As after a lost lease; the second word changes nothing and is told of."""
    async with world(database_url, directory, worker=False) as made, made.client() as client:
        generation = await client.ask("studio/aurora", kind="video", input=CLIP)
        hands = Hands(made.queue, made.generations.handlers)
        await hands.work("generations.studio")
        job = await hands.claim(DELIVER.name)
        assert job is not None
        for _ in range(2):
            assert isinstance(await hands.handlers[DELIVER.name].handle(job), Done)
        story = await client.story(generation)
        assert (story.count("webhook_accepted"), story.count("webhook_ignored")) == (1, 1)


async def test_a_clip_that_was_never_announced_says_why(database_url: str, directory: Path) -> None:
    async with world(database_url, directory, worker=False) as made, made.client() as client:
        generation = await client.ask("studio/aurora", kind="video", input=CLIP)
        hands = Hands(made.queue, made.generations.handlers)
        await hands.work("generations.studio")
        job = await hands.claim(DELIVER.name)
        assert job is not None
        why = Failure("WORKER_DIED", "It died.")
        assert await made.queue.dead_letters.bury(hands.handlers[DELIVER.name], job, why)
        done = await client.show(generation)
        assert done["status"] == "failed"
        assert done["tasks"][0]["error"] == {"code": "provider_error", "message": "It died."}
        assert {"job_dead", "generation_finished"} <= set(await client.story(generation))


async def test_vendors_without_a_way_back_are_warned_of(database_url: str, directory: Path) -> None:
    async def warned(**settings: Any) -> bool:
        with capture_logs() as logs:
            async with world(database_url, directory, worker=False, **settings):
                return any("SAFELIGHT_PUBLIC_URL" in line["event"] for line in logs)

    assert not await warned()
    assert await warned(runware_api_key="k")
    assert not await warned(runware_api_key="k", public_url="https://safelight.example")
