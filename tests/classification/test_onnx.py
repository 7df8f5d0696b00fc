import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_package
import pytest
from numpy.typing import NDArray
from PIL import Image

from accounts.world import HandClock
from classification.images import encoded, plain
from classification.small_model import FRUIT, write
from safelight.classification import onnx
from safelight.classification.base import ModelError
from safelight.classification.declared import PRESETS, Declared, parse
from safelight.classification.local import LocalClassifier
from safelight.classification.network import Network, Predict, Recipe, Session
from safelight.classification.preprocess import Decoder
from safelight.errors import ConfigurationError
from safelight.settings import load
from sandbox.shared import shared_sandbox

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet": ("resnet", {}),
    "tensorflow": ("tensorflow", {}),
    "bytes": ("raw", {"kind": "uint8"}),
    "half": ("resnet", {"kind": "float16"}),
    "blue first": (
        json.dumps({"channels": "bgr", "scale": 1, "mean": [104, 117, 123], "std": [1, 1, 1]}),
        {},
    ),
    "other size": (json.dumps({"size": 96, "crop": 1, "layout": "nhwc"}), {}),
    "probabilities": (json.dumps({"output": "probabilities"}), {}),
    "background": ("resnet", {"background": True}),
}


class Scripted(Session):
    """A network that gives these scores, whatever it sees."""

    def __init__(self, scores: NDArray[np.float32]) -> None:
        self._scores = scores

    def run(self, outputs: list[str], feed: Any) -> list[Any]:  # noqa: ARG002
        return [self._scores]


def loaded(path: Path, preprocessing: str = "resnet") -> Predict:
    """As a child does; here in this process."""
    return onnx.load(path, parse(preprocessing), 20_000_000)


def classifier(path: Path) -> LocalClassifier:
    chosen = {"classifier": "onnx", "onnx_model": path}
    return onnx.build(load(chosen), HandClock(), shared_sandbox())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_network_sees_what_its_preprocessing_declares(tmp_path: Path, variant: str) -> None:
    preprocessing, options = VARIANTS[variant]
    path = write(tmp_path / "fruit.onnx", parse(preprocessing), **options)
    model = loaded(path, preprocessing)
    for label, (_index, colour) in FRUIT.items():
        found = model(encoded(Image.new("RGB", (300, 200), colour), "PNG"))
        assert found.label == label
        assert 0.16 < found.score <= 1
        assert found.drawing.embedding is None


async def test_the_model_goes_by_its_file_and_its_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "fruit-v2.onnx", Declared())
    model = classifier(path)
    await model.open()
    assert model.name == "onnx"
    assert model.model == "fruit-v2"
    assert model.model_hash == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_middle_of_the_image_is_what_counts(tmp_path: Path) -> None:
    model = loaded(write(tmp_path / "fruit.onnx", Declared()))
    image = Image.new("RGB", (900, 300), FRUIT["STRAWBERRY"][1])
    image.paste(FRUIT["LEMON"][1], (300, 0, 600, 300))
    assert model(encoded(image, "JPEG", quality=95)).label == "LEMON"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("resnet50", "JSON"),
        ('{"size": 0}', "size"),
        ('{"mean": [1, 2]}', "mean"),
        ('{"std": [0, 1, 1]}', "std"),
        ('{"layout": "chwn"}', "layout"),
        ('{"sise": 224}', "sise"),
        ("[]", "object"),
        ("", "JSON"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refusal:
        parse(text)
    assert "docs/classifiers.md" in refusal.value.message


def test_what_is_not_declared_is_as_for_resnet() -> None:
    assert parse("{}") == PRESETS["resnet"]
    assert parse('{"size": 256}').mean == PRESETS["resnet"].mean


@pytest.mark.parametrize(
    ("declared", "options", "preprocessing", "reason"),
    [
        (Declared(), {}, "tensorflow", "layout"),
        (Declared(size=96), {}, "resnet", "size"),
        (Declared(), {"kind": "uint8"}, "resnet", "bytes"),
        (Declared(), {"classes": 960}, "resnet", "1000"),
    ],
)
def test_a_model_that_contradicts_its_declaration_stops_the_start(
    tmp_path: Path, declared: Declared, options: dict[str, Any], preprocessing: str, reason: str
) -> None:
    path = write(tmp_path / "fruit.onnx", declared, **options)
    with pytest.raises(ConfigurationError, match=reason):
        loaded(path, preprocessing)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08" * 50])
def test_a_file_that_is_no_model_stops_the_start(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="SAFELIGHT_ONNX_MODEL"):
        loaded(path)


async def test_a_child_tries_the_file_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SAFELIGHT_ONNX_MODEL cannot be read"):
        await classifier(tmp_path / "nowhere.onnx").open()
    small = write(tmp_path / "small.onnx", Declared(size=96))
    with pytest.raises(ConfigurationError, match="set size and layout"):
        await classifier(small).open()


async def test_scores_that_are_declared_as_what_they_are_not_stop_the_start(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "fruit.onnx", Declared())
    declared = '{"output": "probabilities"}'
    chosen = {"classifier": "onnx", "onnx_model": path, "onnx_preprocessing": declared}
    with pytest.raises(ConfigurationError, match='set output to "logits"'):
        await onnx.build(load(chosen), HandClock(), shared_sandbox()).open()


def test_scores_that_cannot_be_probabilities_are_the_models_fault(tmp_path: Path) -> None:
    """The samples at the start may have had such scores by chance; no image is blamed later."""
    model = loaded(write(tmp_path / "fruit.onnx", Declared()), '{"output": "probabilities"}')
    with pytest.raises(ModelError, match="no probabilities"):
        model(plain("red"))


def test_a_probability_a_hair_above_one_is_one(tmp_path: Path) -> None:
    """As networks with short floats give them; whoever reads it takes no more than one."""
    scores = np.zeros((1, 1000), np.float32)
    scores[0, 7] = 1.0001
    recipe = Recipe(224, 1, Image.Resampling.BILINEAR, "in", "out", gives_logits=False)
    network = Network(Scripted(scores), Decoder(10**6), recipe)
    assert network.predict(plain("red")).score == 1


def test_scores_that_are_no_numbers_are_the_models_fault(tmp_path: Path) -> None:
    declared = Declared(scale=1e36, mean=(0, 0, 0), std=(1, 1, 1))
    model = loaded(write(tmp_path / "fruit.onnx", Declared()), declared.model_dump_json())
    with pytest.raises(ModelError, match="usable scores"):
        model(plain("red"))


@pytest.mark.parametrize("name", ["resnet50", "squeezenet", "shufflenet"])
def test_the_published_graphs_fit(name: str) -> None:
    """As in the model zoo, shape for shape; without real weights every class is as likely."""
    path = Path(onnx_package.__file__).parent / f"backend/test/data/light/light_{name}.onnx"
    model = loaded(path, '{"output": "probabilities"}')
    assert model(plain("red")).score == pytest.approx(1 / 1000)
