"""A result is looked at before it is an artifact."""

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from emulators.media import box, mp4, png
from emulators.runware import Plan, Runware
from generations.world import world
from safelight.generations.media import Recognized
from safelight.generations.verify import CannotLook, Verifier
from safelight.infra.injected import SystemClock
from safelight.infra.scratch import Scratch
from safelight.sandbox.protocol import Bounds, Inspection
from safelight.sandbox.sandbox import Sandbox, SandboxDown, SandboxTimeout, SourceAway
from safelight.testing.injected import Watch

Here = dict[str, Any]
VIDEO = {"kind": "video", "model": "runware:501@1"}


@pytest.fixture
def here(database_url: str, directory: Path, vendor: Runware) -> Here:
    return {"database_url": database_url, "directory": directory, **vendor.settings}


def photo(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((96, 64), 90).convert("RGB").save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF"])
async def test_a_body_that_ends_early_is_fetched_again(
    here: Here, vendor: Runware, kind: str
) -> None:
    """Without an announced length only the picture itself can tell."""
    vendor.default = Plan(media=["short", "fine"])
    vendor.picture = photo(kind)
    async with world(**here) as made, made.client() as client:
        done = await client.over(await client.ask())
        assert done["artifactCount"] == 1
        [artifact] = await client.items("/artifacts")
        assert artifact["sizeBytes"] == len(vendor.picture)
        history = await client.items(f"/generations/{done['id']}/history")
        [attempt] = [item for item in history if item["type"] == "task_attempt"]
        assert "damaged" in attempt["error"]["message"]
    assert len(vendor.submitted) == 1


async def test_one_that_always_ends_early_is_never_an_artifact(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(media=["short"])
    watch = Watch(SystemClock().now_ms())
    async with (
        world(**here, clock=watch, generation_fetch_seconds=60) as made,
        made.client() as client,
    ):
        generation = await client.ask()
        await client.troubled(generation)
        await made.ring()
        await made.closes()
        watch.move(seconds=59.5)  # not enough for one more try after the next
        done = await client.over(generation)
        assert done["status"] == "failed"
        assert done["tasks"][0]["error"]["code"] == "provider_error"
        assert list(await made.store.list("artifacts/")) == []


async def test_what_came_inline_and_is_damaged(here: Here, vendor: Runware) -> None:
    vendor.default = Plan(inline=True)
    vendor.picture = png()[:-20]
    async with world(**here) as made, made.client() as client:
        [task] = (await client.over(await client.ask()))["tasks"]
        assert task["error"]["code"] == "provider_error"
        assert "damaged" in task["error"]["message"]


async def test_more_pixels_than_are_kept(here: Here, vendor: Runware) -> None:
    async with world(**here, max_pixels=96 * 64 - 1) as made, made.client() as client:
        [task] = (await client.over(await client.ask()))["tasks"]
        assert task["error"] == {
            "code": "too_large",
            "message": "The result has more than 6143 pixels.",
        }


async def test_a_video_tells_its_size_and_length(here: Here, vendor: Runware) -> None:
    async with world(**here) as made, made.client() as client:
        await client.over(await client.ask(**VIDEO))
        [artifact] = await client.items("/artifacts")
        metadata = artifact["metadata"]
        assert (metadata["width"], metadata["height"]) == (640, 360)
        assert metadata["durationSeconds"] == 2.5


async def test_videos_that_are_not_kept(here: Here, vendor: Runware) -> None:
    """One without a picture; one that ends early, until it does not."""
    vendor.plans = {0: Plan(), 1: Plan(media=["short", "fine"])}
    vendor.videos = {0: box(b"ftyp", b"isom\0\0\0\0") + box(b"moov") + box(b"mdat"), 1: mp4()}
    async with world(**here) as made, made.client() as client:
        wanted = {"prompt": "p", "seed": 0}
        done = await client.over(await client.ask(**VIDEO, count=2, input=wanted))
        codes = [task["error"] and task["error"]["code"] for task in done["tasks"]]
        assert codes == ["fetch_refused", None]


class Away(Sandbox):
    """Goes away as often as it is told."""

    times = 2
    how: type[Exception] = SandboxDown

    async def inspect(self, data: bytes | int, bounds: Bounds) -> Inspection:
        if self.times:
            self.times -= 1
            raise self.how
        return await super().inspect(data, bounds)


@pytest.mark.parametrize("how", [SandboxDown, SandboxTimeout, SourceAway])
async def test_what_is_not_the_results_fault_is_told_apart(
    tmp_path: Path, how: type[Exception]
) -> None:
    away = Away()
    away.how = how
    with Scratch(tmp_path) as file, pytest.raises(CannotLook):
        await Verifier(away, Bounds(1, 1, 1)).image(file, Recognized("image/png", 1, 1))


async def test_when_nobody_can_look_it_waits(here: Here, vendor: Runware) -> None:
    away = Away()
    async with world(**here, sandbox=away) as made, made.client() as client:
        done = await client.over(await client.ask())
        assert done["status"] == "ready"
        assert "task_attempt" not in await client.story(done["id"])
    await away.close()
    assert (away.times, len(vendor.submitted)) == (0, 1)
