import importlib.util
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from PIL import Image

from classification import lite0_reference
from classification.images import encoded, gray16, opened, photo, turned
from safelight.classification import lite0
from safelight.classification.base import Prediction
from safelight.classification.network import Predict, Session, softmax
from safelight.classification.preprocess import Decoder
from safelight.classification.weights import fold, read_checkpoint

CATS = {"TABBY", "TIGER CAT", "EGYPTIAN CAT"}
GRAPH = (files("safelight.classification") / "data/lite0.onnx").read_bytes()
TOOL = Path(__file__).parents[2] / "tools/make_lite0_graph.py"


@pytest.fixture(scope="module")
def predict() -> Predict:
    return lite0.load(100_000_000, lite0.weights_path())


@pytest.fixture(scope="module")
def tensors() -> dict[str, NDArray[Any]]:
    return read_checkpoint(lite0.weights_path().read_bytes(), lite0.SHA256)


@pytest.fixture(scope="module")
def session(tensors: dict[str, NDArray[Any]]) -> Session:
    return Session(GRAPH, fold(tensors))


def pixels(data: bytes) -> NDArray[np.uint8]:
    with Decoder(100_000_000).decoded(data) as picture:
        return picture.square(lite0.SIDE, lite0.SHARE, Image.Resampling.BICUBIC)


def cosine(one: Prediction, other: Prediction) -> float:
    first, second = (
        np.frombuffer(p.drawing.embedding or b"", "<f2").astype(float) for p in (one, other)
    )
    return float(first @ second)


@pytest.mark.parametrize(
    ("name", "labels", "least"),
    [("cat", CATS, 0.3), ("coffee", {"ESPRESSO"}, 0.9), ("daisy", {"DAISY"}, 0.2)],
)
def test_photographs_get_the_labels_people_would_give(
    predict: Predict, name: str, labels: set[str], least: float
) -> None:
    found = predict(photo(name))
    assert found.label in labels
    assert least < found.score < 1
    assert found.drawing.thumbnail is None


def test_the_graph_and_its_folded_weights_equal_the_plain_network(
    session: Session, tensors: dict[str, NDArray[Any]]
) -> None:
    image = pixels(photo("coffee"))
    (found,) = session.run(["logits"], {"image": image[None]})
    assert np.abs(found[0] - lite0_reference.logits(tensors, image)).max() < 1e-3


def test_a_batch_gives_what_single_images_give(session: Session) -> None:
    images = np.stack([pixels(photo(name)) for name in ("cat", "coffee", "daisy")])
    together = session.run(["logits", "embedding"], {"image": images})
    for number, image in enumerate(images):
        alone = session.run(["logits", "embedding"], {"image": image[None]})
        for one, many in zip(alone, together, strict=True):
            assert np.isfinite(one).all()
            assert np.abs(one[0] - many[number]).max() < 1e-4


def test_the_graph_is_what_its_maker_makes() -> None:
    spec = importlib.util.spec_from_file_location("make_lite0_graph", TOOL)
    assert spec
    assert spec.loader
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert onnx.load_model_from_string(GRAPH) == maker.build()
    assert len(GRAPH) < 20_000


def test_the_embedding_finds_the_same_picture_again(predict: Predict) -> None:
    cat, coffee = predict(photo("cat"), embedding=True), predict(photo("coffee"), embedding=True)
    assert cat.drawing.embedding
    assert len(cat.drawing.embedding) == 1280 * 2
    smaller = encoded(opened(photo("cat")).resize((300, 200)), "WEBP", quality=60)
    assert cosine(cat, cat) == pytest.approx(1, abs=0.01)
    assert cosine(cat, predict(smaller, embedding=True)) > 0.8
    assert cosine(cat, coffee) < 0.5


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photograph_is_judged_upright(predict: Predict, orientation: int) -> None:
    found = predict(turned(opened(photo("coffee")), orientation))
    assert found.label == "ESPRESSO"
    assert found.score > 0.9


def test_sixteen_bits_of_gray_look_like_eight(predict: Predict) -> None:
    image = opened(photo("coffee")).convert("L")
    eight, sixteen = predict(encoded(image, "PNG")), predict(gray16(image))
    assert sixteen.label == eight.label
    assert sixteen.score == pytest.approx(eight.score, abs=0.02)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "AVIF"])
def test_other_formats_agree_with_the_jpeg(predict: Predict, kind: str) -> None:
    assert predict(encoded(opened(photo("coffee")), kind)).label == "ESPRESSO"


def test_a_large_jpeg_is_judged_like_the_small_one(predict: Predict) -> None:
    large = encoded(opened(photo("coffee")).resize((3000, 2000)), "JPEG", quality=90)
    found = predict(large)
    assert found.label == "ESPRESSO"
    assert found.score > 0.9


def test_softmax_survives_extreme_logits() -> None:
    found = softmax(np.array([1000, -1000, 999], np.float32))
    assert found.sum() == pytest.approx(1)
    assert found.argmax() == 0
