"""The built-in studio: the same commission gives the same bytes, and it does as it is told."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from generations.world import world
from safelight.errors import InvalidRequest
from safelight.generations.lifecycle import MediaKind
from safelight.generations.media import recognize
from safelight.generations.studio.catalogue import MODELS, Commission, commission_of, conduct_of
from safelight.generations.studio.prompt import read
from safelight.generations.studio.render import SCENES, render
from safelight.infra.injected import SystemClock
from safelight.testing.injected import Watch
from safelight.testing.waiting import until

SMALL = {"width": 96, "height": 80}
MODEL_IDS = [model.id for model in MODELS]
PROMPTS = [
    "", "a lighthouse at dusk above a calm sea", "snowy mountains, forest, lake at dawn",
    "rainy city at night in violet and gold, birds, boat", "poppies and tulips in the mist, noon",
]  # fmt: skip


def commission(
    model: str = "studio/horizon", kind: MediaKind = MediaKind.IMAGE, seed: int = 7, **wanted: Any
) -> Commission:
    return commission_of(model, kind, {**SMALL, **wanted}, seed, "artifact")


def test_every_model_can_be_drawn() -> None:
    assert set(MODEL_IDS) == set(SCENES)


@pytest.mark.parametrize("model", MODEL_IDS)
def test_the_same_bytes_again(model: str) -> None:
    one = commission(model, prompt=PROMPTS[1])
    first = render(one)
    assert render(one) == first
    other_seed, other_words = (
        commission(model, seed=8, prompt=PROMPTS[1]),
        commission(model, prompt="red night"),
    )
    assert len({first, render(other_seed), render(other_words)}) == 3


@pytest.mark.parametrize("model", MODEL_IDS)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_whatever_the_prompt_there_is_a_picture(model: str, prompt: str) -> None:
    picture = Image.open(io.BytesIO(render(commission(model, prompt=prompt))))
    assert picture.size == (96, 80)
    pixels = np.asarray(picture.convert("RGB"), np.float32)
    assert pixels.std() > 12  # neither blank nor noise
    assert 8 < pixels.mean() < 247


@pytest.mark.parametrize(("width", "height"), [(64, 64), (300, 64), (64, 300)])
def test_odd_shapes(width: int, height: int) -> None:
    for model in MODEL_IDS:
        content = render(commission(model, width=width, height=height, prompt="city lighthouse"))
        assert Image.open(io.BytesIO(content)).size == (width, height)


@pytest.mark.parametrize(
    ("wanted", "kind"), [("JPG", "image/jpeg"), ("PNG", "image/png"), ("WEBP", "image/webp")]
)
def test_formats(wanted: str, kind: str) -> None:
    content = render(commission(outputFormat=wanted))
    assert recognize(content, complete=True).content_type == kind
    assert b"Safelight studio" in content


def frames(content: bytes) -> Iterator[Any]:
    with av.open(io.BytesIO(content), "r") as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


@pytest.mark.parametrize("model", MODEL_IDS)
def test_clips(model: str) -> None:
    one = commission(model, MediaKind.VIDEO, duration=0.3)
    content = render(one)
    assert recognize(content, complete=True).content_type == "video/webm"
    assert render(one) == content
    shown = list(frames(content))
    assert len(shown) == 6
    assert shown[0].shape == (80, 96, 3)
    assert np.abs(shown[0].astype(int) - shown[-1].astype(int)).max() > 4  # it moves


def test_the_hour_is_in_the_picture() -> None:
    def brightness(prompt: str) -> float:
        picture = Image.open(io.BytesIO(render(commission(prompt=prompt))))
        return float(np.asarray(picture.convert("L")).mean())

    assert (
        brightness("the sea at noon")
        > brightness("the sea at dusk")
        > brightness("the sea at night")
    )


def test_the_colour_is_in_the_picture() -> None:
    def colours(prompt: str) -> Any:
        picture = Image.open(io.BytesIO(render(commission(prompt=prompt))))
        return np.asarray(picture.convert("RGB"), np.float32).mean(axis=(0, 1))

    green, rose = colours("a green sea at dusk"), colours("a rose sea at dusk")
    assert green[1] - green[0] > rose[1] - rose[0] + 10


@pytest.mark.parametrize(
    ("prompt", "hour", "thing"),
    [
        ("A LIGHTHOUSE at Dusk", "dusk", "lighthouse"), ("starry forest", "night", "forest"),
        ("mountains, early morning", "dawn", "mountains"), ("gulls at noon", "day", "birds"),
        ("", None, None), ("quantum hats", None, None),
    ],
)  # fmt: skip
def test_reading_a_prompt(prompt: str, hour: str | None, thing: str | None) -> None:
    reading = read(prompt)
    assert reading.hour == hour
    assert (thing in reading.things) if thing else not reading.things


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 63}, {"width": 2049}, {"height": "512"}, {"width": True}, {"outputFormat": "BMP"},
        {"duration": 0}, {"duration": 60}, {"duration": "1"}, {"outputFormat": 5}, {"width": 1280, "height": 1280},
    ],
)  # fmt: skip
def test_commissions_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        commission_of("studio/aurora", MediaKind.VIDEO, wrong, 1, "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"fail": "x"},
        {"failTasks": 1},
        {"failTasks": ["0"]},
        {"delaySeconds": -1},
        {"delaySeconds": None},
    ],
)
def test_conduct_that_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        conduct_of(wrong, 0)


def test_a_model_it_does_not_have() -> None:
    with pytest.raises(InvalidRequest, match="studio/horizon"):
        commission_of("studio/dali", MediaKind.IMAGE, {}, 1, "")


# In the whole


async def test_images_one_refused(database_url: str, directory: Path) -> None:
    async with world(database_url, directory) as made, made.client() as client:
        wanted = {"prompt": "dusk", "seed": 3, **SMALL, "failTasks": [1]}
        done = await client.over(await client.ask("studio/horizon", count=3, input=wanted))
        assert (done["provider"], done["status"], done["artifactCount"]) == ("studio", "ready", 2)
        assert done["tasks"][1]["error"]["code"] == "refused"
        artifacts = await client.items("/artifacts")
        assert {one["metadata"]["seed"] for one in artifacts} == {3, 5}
        for one in artifacts:
            assert one["metadata"]["software"] == "Safelight studio"
            assert "procedural" in one["metadata"]["method"]
            content = (await client.http.get(f"/artifacts/{one['id']}/content")).content
            expected = commission(seed=one["metadata"]["seed"], prompt="dusk")
            assert content == render(expected)


async def test_a_clip_through_the_real_webhook(database_url: str, directory: Path) -> None:
    async with world(database_url, directory) as made, made.client() as client:
        wanted = {"prompt": "aurora", **SMALL, "duration": 0.2, "delaySeconds": 0.2}
        generation = await client.ask("studio/aurora", kind="video", input=wanted)
        done = await client.over(generation)
        assert done["status"] == "ready"
        [artifact] = await client.items("/artifacts")
        assert artifact["contentType"] == "video/webm"
        assert artifact["metadata"]["width"] == 96
        assert "webhook_accepted" in await client.story(generation)
        assert await made.db.fetchval("SELECT NOT EXISTS (SELECT FROM jobs)")


async def test_clips_that_fail_and_one_that_never_comes(database_url: str, directory: Path) -> None:
    async with world(database_url, directory) as made, made.client() as client:
        ids = [
            await client.ask("studio/bloom", kind="video", input={**SMALL, "fail": how})
            for how in ("refused", "error", "silent")
        ]
        codes = [(await client.over(one))["tasks"][0]["error"]["code"] for one in ids[:2]]
        assert codes == ["refused", "provider_error"]
        await until(lambda: made.db.fetchval("SELECT count(*) = 1 FROM jobs"))  # only the timer
        await made.ring()
        assert (await client.over(ids[2]))["tasks"][0]["error"]["code"] == "timeout"


async def test_busy_until_the_time_is_over(database_url: str, directory: Path) -> None:
    watch = Watch(SystemClock().now_ms())
    async with world(database_url, directory, clock=watch) as made, made.client() as client:
        generation = await client.ask("studio/bloom", input={**SMALL, "fail": "busy"})
        await client.troubled(generation)
        watch.move(seconds=299.5)  # of 300: not enough for one more try after the next
        done = await client.over(generation)
        assert done["tasks"][0]["error"]["code"] == "provider_error"
