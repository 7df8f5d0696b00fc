"""What holds for every classifier in the registry."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts.world import HandClock
from classification.images import encoded, four_colours, opened, photo, plain, png, turned
from classification.small_model import write
from emulators.workers_ai import workers_ai
from safelight.classification.base import Classifier, ModelError, Prediction, Undecodable
from safelight.classification.classifiers import CLASSIFIERS, build, check
from safelight.classification.declared import Declared
from safelight.errors import ConfigurationError
from safelight.settings import Settings, load
from sandbox.shared import shared_sandbox

NAMES = [name for name, _build in CLASSIFIERS]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all, so that a child that has loaded it serves them all."""
    return write(tmp_path_factory.mktemp("onnx") / "fruit.onnx", Declared())


@pytest.fixture(params=NAMES)
def settings(request: pytest.FixtureRequest, network: Path) -> Iterator[Settings]:
    common = {"classifier": request.param, "classifier_threads": 2, "max_pixels": 20_000_000}
    if request.param == "workers-ai":
        with workers_ai() as vendor:
            yield load({**common, "workers_ai_url": vendor.url})
    elif request.param == "onnx":
        yield load({**common, "onnx_model": network})
    else:
        yield load(common)


@pytest.fixture
async def classifier(settings: Settings) -> AsyncIterator[Classifier]:
    made = build(settings, HandClock(), shared_sandbox())
    await made.open()
    yield made
    await made.close()


def test_a_name_that_is_none_of_theirs_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=f"SAFELIGHT_CLASSIFIER.*{', '.join(NAMES)}"):
        check(load({"classifier": "resnet"}))


async def test_a_result_can_name_its_model(classifier: Classifier, settings: Settings) -> None:
    assert classifier.name == settings.classifier
    assert classifier.model
    assert classifier.remote == (classifier.model_hash is None)
    assert re.fullmatch("[0-9a-f]{64}", classifier.model_hash or "0" * 64)


@pytest.mark.parametrize("name", ["cat", "coffee", "daisy"])
async def test_a_photograph_gets_a_label_and_a_score(classifier: Classifier, name: str) -> None:
    found = await classifier.classify(photo(name))
    assert re.fullmatch("[A-Z][-A-Z' .]*", found.label)
    assert 0 <= found.score <= 1
    assert found.drawing.thumbnail is found.drawing.embedding is None


async def test_an_embedding_is_there_only_if_asked_for(classifier: Classifier) -> None:
    """Every classifier may be asked; the network of our own has one to give."""
    found = await classifier.classify(photo("cat"), embedding=True)
    assert (found.drawing.embedding is not None) == (classifier.name == "lite0")
    assert (await classifier.classify(photo("cat"))).drawing.embedding is None


@pytest.mark.parametrize("orientation", [1, 6])
async def test_a_thumbnail_is_made_from_the_same_decode(
    classifier: Classifier, orientation: int
) -> None:
    data = turned(four_colours((1800, 1200)), orientation)
    found = await classifier.classify(data, thumbnail=True)
    assert found.drawing.thumbnail
    small = opened(found.drawing.thumbnail)
    assert (small.format, small.size) == ("WEBP", (320, 213))
    assert not small.getexif()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an image",
        photo("cat")[:-5000],
        png(10_000, 10_000),
        png(5_000, 5_000),
        png(0, 1),
        encoded(four_colours(), "TIFF"),
    ],
)
@pytest.mark.parametrize("thumbnail", [True, False])
async def test_bytes_that_are_no_image_are_undecodable(
    classifier: Classifier, data: bytes, thumbnail: bool
) -> None:
    with pytest.raises(Undecodable):
        await classifier.classify(data, thumbnail=thumbnail)


@pytest.mark.parametrize("size", [(1, 1), (5000, 1), (1, 5000)])
async def test_odd_shapes_are_classified(classifier: Classifier, size: tuple[int, int]) -> None:
    found = await classifier.classify(plain("orange", size), thumbnail=True)
    assert isinstance(found, Prediction)
    assert found.drawing.thumbnail


async def test_sixteen_at_once_agree_with_one_after_another(classifier: Classifier) -> None:
    images = [photo("cat"), photo("coffee"), photo("daisy"), plain("red")]
    single = [await classifier.classify(data) for data in images]
    calls = (classifier.classify(data) for data in images * 4)
    assert await asyncio.gather(*calls) == single * 4


async def test_one_bad_image_among_many_hurts_nobody_else(classifier: Classifier) -> None:
    calls = [classifier.classify(data) for data in (photo("cat"), b"bad", photo("coffee"))]
    good, bad, also_good = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(bad, Undecodable)
    assert isinstance(good, Prediction)
    assert isinstance(also_good, Prediction)


async def test_opening_and_closing_twice_is_fine_and_closed_is_closed(settings: Settings) -> None:
    made: Any = build(settings, HandClock(), shared_sandbox())
    await made.open()
    await made.open()
    await made.classify(photo("cat"))
    await made.close()
    await made.close()
    with pytest.raises(ModelError):
        await made.classify(photo("cat"))
