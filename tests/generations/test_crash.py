"""The process dies at every step; after a restart each task ends once, and nothing is doubled."""

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulators.replicate import Plan as Prediction
from emulators.replicate import Replicate
from emulators.runware import Plan, Runware
from generations.world import Client, World, later_sweep, world
from nursery import bear
from points import points_of
from safelight.infra.failpoints import EXIT_CODE
from safelight.testing.waiting import until

pytestmark = pytest.mark.process
IMAGES = {"model": "runware:100@1", "input": {"prompt": "p", "seed": 0}, "count": 2}
VIDEO = {"model": "runware:501@1", "input": {"prompt": "p", "seed": 0}, "kind": "video"}
CLIP = {
    "model": "studio/aurora",
    "kind": "video",
    "input": {"width": 64, "height": 64, "duration": 0.2},
}
SOON = 4.0  # how soon a dead worker's jobs are taken over here


@dataclass
class Case:
    url: str
    directory: Path
    settings: dict[str, Any]
    port: int

    async def die(self, point: str, wanted: dict[str, Any], then: str = "") -> None:
        name, _, nth = point.partition("@")
        order = {
            "url": self.url, "directory": str(self.directory), "settings": self.settings,
            "port": self.port, "wanted": wanted, "then": then,
            "point": [name, "exit" + (f"@{nth}" if nth else "")],
        }  # fmt: skip
        child = await asyncio.to_thread(bear, "generations.victim:live", order)
        assert await asyncio.to_thread(child.wait) == EXIT_CODE, point

    def again(self, **settings: Any) -> Any:
        together = {**self.settings, **settings}
        return world(self.url, self.directory, port=self.port, lease=SOON, **together)


def a_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def case(database_url: str, tmp_path: Path, vendor: Runware) -> Case:
    return Case(database_url, tmp_path, _plain(vendor.settings), a_port())


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()
    }


async def ask_again(client: Client, wanted: dict[str, Any]) -> str:
    """As a client does that never heard the answer."""
    headers = {"Idempotency-Key": "the-one"}
    response = await client.http.post("/generations", json=wanted, headers=headers)
    generation: str = response.json()["id"]
    return generation


async def expire(made: World) -> None:
    await made.db.execute(
        "UPDATE jobs SET lease_until = now() WHERE status = 'running' AND owner <> $1",
        made.queue.owner,
    )
    made.queue.wake()


async def check_whole(
    made: World, client: Client, generation: str, artifacts: int
) -> dict[str, Any]:
    """Every task over once, every artifact there once with its bytes, nothing left behind."""
    done = await client.over(generation)
    rows = await made.db.fetch("SELECT id FROM artifacts")
    ready = [task["artifactId"] for task in done["tasks"] if task["status"] == "ready"]
    assert sorted(row["id"] for row in rows) == sorted(ready)
    assert done["artifactCount"] == len(ready) == artifacts
    for artifact in ready:
        content = await client.http.get(f"/artifacts/{artifact}/content")
        assert content.status_code == 200
        assert content.content
    story = await client.story(generation)
    assert story.count("artifact_ready") == artifacts
    assert story.count("generation_finished") == story.count("generation_started") == 1
    assert await made.db.fetchval("SELECT count(*) FROM generations") == 1
    await until(lambda: made.db.fetchval("SELECT NOT EXISTS (SELECT FROM jobs)"))
    await later_sweep(made, days=2).orphans()
    keys = [one.key for one in await made.store.list("artifacts/")]
    assert sorted(keys) == sorted(f"artifacts/{artifact}" for artifact in ready)
    return done


# In the order of their passing, counted from the request on; @N is the Nth time.
IMAGE_POINTS = [
    "kv.compare_and_set", "generations.add", "queue.enqueue", "unit.close",
    "generations.save@1", "generations.submit@1", "generations.submit@2", "generations.save@3",
    "generations.save@4", "generations.put@1", "objects.record_put@1", "objects.put@2",
    "generations.save@5", "generations.artifacts.add@1", "unit.close@2", "generations.publish",
    "queue.cancel", "unit.close@3",
]  # fmt: skip


@pytest.mark.parametrize("points", [IMAGE_POINTS[at::4] for at in range(4)], ids=str)
async def test_images(points: list[str], case: Case, vendor: Runware) -> None:
    for point in points:
        vendor.submitted.clear()
        await case.die(point, IMAGES)
        async with case.again() as made, made.client() as client:
            await expire(made)
            generation = await ask_again(client, IMAGES)
            await check_whole(made, client, generation, 2)
            await made.db.execute(_FORGET)
        # One paid call per task: what was lost on the way was asked about.
        assert len(vendor.submitted) == 2, point


VIDEO_POINTS = [
    "generations.submit", "generations.save@2", "unit.close@2", "generations.save@3",
    "queue.enqueue@2", "generations.put", "generations.artifacts.add", "generations.publish",
]  # fmt: skip


@pytest.mark.parametrize("points", [VIDEO_POINTS[at::2] for at in range(2)], ids=str)
async def test_videos(points: list[str], case: Case, vendor: Runware) -> None:
    vendor.default = Plan(callbacks=1, seconds=0.3, stubborn=True)
    for point in points:
        vendor.submitted.clear()
        await case.die(point, VIDEO)
        async with case.again() as made, made.client() as client:
            await expire(made)
            generation = await ask_again(client, VIDEO)
            await check_whole(made, client, generation, 1)
            await made.db.execute(_FORGET)
        assert len(vendor.submitted) == 1, point


STUDIO_POINTS = ["queue.enqueue@2", "generations.save@3"]


async def test_the_studio(case: Case) -> None:
    for point in STUDIO_POINTS:
        await case.die(point, CLIP)
        async with case.again() as made, made.client() as client:
            await expire(made)
            await check_whole(made, client, await ask_again(client, CLIP), 1)
            await made.db.execute(_FORGET)


TIMER_POINTS = ["generations.ask_last", "generations.save@3", "queue.enqueue@2", "unit.close@3"]


@pytest.mark.parametrize("point", TIMER_POINTS)
async def test_the_timer(point: str, case: Case, vendor: Runware) -> None:
    """It fires in the next life, also if the last one died firing."""
    vendor.default = Plan(gate=asyncio.Event())
    case.settings["generation_video_timeout_seconds"] = 2.0  # on busy machines too
    await case.die(point, VIDEO)
    async with case.again() as made, made.client() as client:
        await expire(made)
        done = await check_whole(made, client, await ask_again(client, VIDEO), 0)
        assert done["tasks"][0]["error"]["code"] == "timeout"


QUESTION_POINTS = ["generations.ask", "queue.put_off"]


@pytest.mark.parametrize("point", QUESTION_POINTS)
async def test_a_question_that_was_not_answered(point: str, case: Case, vendor: Runware) -> None:
    vendor.default = Plan(lose_answer=True)
    one = {**IMAGES, "count": 1}
    await case.die(point, one)
    async with case.again() as made, made.client() as client:
        await expire(made)
        await check_whole(made, client, await ask_again(client, one), 1)
    assert len(vendor.submitted) == 1


FETCH_POINTS = ["generations.save@3", "queue.put_off"]


@pytest.mark.parametrize("point", FETCH_POINTS)
async def test_a_fetch_that_failed(point: str, case: Case, vendor: Runware) -> None:
    vendor.default = Plan(media=["broken", "fine"])
    one = {**IMAGES, "count": 1}
    await case.die(point, one)
    async with case.again() as made, made.client() as client:
        await expire(made)
        await check_whole(made, client, await ask_again(client, one), 1)
    assert len(vendor.submitted) == 1


CANCEL_POINTS = ["generations.cancel_at_provider"]


@pytest.mark.parametrize("point", CANCEL_POINTS)
async def test_cancelling(
    point: str, database_url: str, tmp_path: Path, predictor: Replicate
) -> None:
    """Killed before the vendor was told: it is told in the next life."""
    predictor.plan = Prediction(never=True)
    case = Case(database_url, tmp_path, _plain(predictor.settings), a_port())
    film = {"model": "acme/film", "input": {"prompt": "p"}, "kind": "video"}
    await case.die(point, film, "cancel")
    async with case.again() as made, made.client() as client:
        await expire(made)
        done = await client.over(await ask_again(client, film))
        assert done["tasks"][0]["error"]["code"] == "cancelled"
        await until(lambda: predictor.cancelled == ["pred1"])


DELETE_POINTS = ["generations.delete_artifact", "objects.delete", "generations.artifacts.remove"]


@pytest.mark.parametrize("point", DELETE_POINTS)
async def test_deleting(point: str, case: Case) -> None:
    one = {**IMAGES, "count": 1}
    await case.die(point, one, "delete")
    async with case.again() as made, made.client() as client:
        generation = await ask_again(client, one)
        done = await check_whole(made, client, generation, 1)
        artifact = done["tasks"][0]["artifactId"]
        assert (await client.http.delete(f"/artifacts/{artifact}")).status_code == 204
        assert list(await made.store.list("artifacts/")) == []


TAG_POINTS = [
    "generations.artifacts.put_tag@1", "generations.artifacts.remove_tag@1",
    "generations.artifacts.put_tag@2", "generations.artifacts.remove_tag@2",
]  # fmt: skip


async def test_tagging(case: Case) -> None:
    """Whatever was done before the end, doing it again does it."""
    one = {**IMAGES, "count": 1}
    for point in TAG_POINTS:
        await case.die(point, one, "tag")
        async with case.again() as made, made.client() as client:
            generation = await ask_again(client, one)
            done = await check_whole(made, client, generation, 1)
            artifact = done["tasks"][0]["artifactId"]
            for path in (f"/generations/{generation}", f"/artifacts/{artifact}"):
                assert (await client.http.put(f"{path}/tags/red")).status_code == 204
                assert (await client.http.get(path)).json()["tags"] == ["red"]
                assert (await client.http.delete(f"{path}/tags/red")).status_code == 204
                assert (await client.http.get(path)).json()["tags"] == []
            await made.db.execute(_FORGET)


THUMBNAIL_POINTS = ["generations.artifacts.thumbnails.keep"]


async def test_a_small_picture_is_made_again(case: Case) -> None:
    (point,) = THUMBNAIL_POINTS
    wanted = {"model": "studio/aurora", "input": {"prompt": "p", "width": 64, "height": 64}}
    await case.die(point, wanted, "thumbnail")
    async with case.again() as made, made.client() as client:
        assert await made.db.fetchval("SELECT count(*) FROM artifact_thumbnails") == 0
        done = await check_whole(made, client, await ask_again(client, wanted), 1)
        artifact = f"/artifacts/{done['tasks'][0]['artifactId']}"
        assert (await client.http.get(f"{artifact}/thumbnail")).status_code == 200
        assert await made.db.fetchval("SELECT count(*) FROM artifact_thumbnails") == 1
        await client.http.delete(artifact)
        assert await made.db.fetchval("SELECT count(*) FROM artifact_thumbnails") == 0


SWEEP_POINTS = ["generations.purge", "generations.remove_orphan"]


@pytest.mark.parametrize("point", SWEEP_POINTS)
async def test_sweeping(point: str, case: Case) -> None:
    """What the last life left lying is taken away in the next, and nothing else."""
    one = {**IMAGES, "count": 1}
    await case.die(point, one, "sweep")
    async with case.again() as made, made.client() as client:
        later = later_sweep(made)
        assert await later.purge() == (1 if point == "generations.purge" else 0)
        assert await later.orphans() == 1
        await check_whole(made, client, await ask_again(client, one), 1)


def test_no_step_is_left_out() -> None:
    """The list is the code's own: a write that is added has to be died at too."""
    points = (
        IMAGE_POINTS + VIDEO_POINTS + STUDIO_POINTS + TIMER_POINTS + QUESTION_POINTS + FETCH_POINTS
        + CANCEL_POINTS + DELETE_POINTS + TAG_POINTS + THUMBNAIL_POINTS + SWEEP_POINTS
    )  # fmt: skip
    assert set(points_of("generations.")) <= {point.partition("@")[0] for point in points}


_FORGET = """
DELETE FROM kv; DELETE FROM activity; DELETE FROM artifacts; DELETE FROM generations;
DELETE FROM generations_inflight; DELETE FROM jobs;
"""
