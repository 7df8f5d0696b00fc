"""Any ImageNet network in an ONNX file, fed as SAFELIGHT_ONNX_PREPROCESSING declares.

A file that cannot be used, or that contradicts its declaration, stops the start with a sentence.
Known gap: weights kept in files beside the model are not part of its hash.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from safelight.classification.base import ModelError
from safelight.classification.declared import SETTING, Declared, parse
from safelight.classification.labels import CLASSES
from safelight.classification.network import Network, Predict, Recipe, Session, tasks
from safelight.errors import ConfigurationError
from safelight.sandbox.protocol import SandboxTasks

if TYPE_CHECKING:  # children load this file too, and need none of these
    from safelight.classification.local import LocalClassifier
    from safelight.infra.injected import Clock
    from safelight.sandbox.sandbox import Sandbox
    from safelight.settings import Settings

NAME: Final = "onnx"
_KINDS: Final = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(uint8)": "uint8"}


def build(settings: "Settings", _clock: "Clock", sandbox: "Sandbox") -> "LocalClassifier":
    from safelight.classification.local import LocalClassifier
    from safelight.sandbox.children import Kit

    path = settings.onnx_model
    if path is None:
        raise ConfigurationError("SAFELIGHT_CLASSIFIER=onnx also needs SAFELIGHT_ONNX_MODEL.")
    kit = Kit.of(
        __name__,
        at_once=settings.classifier_threads,
        max_pixels=settings.max_pixels,
        model=str(path.absolute()),
        preprocessing=parse(settings.onnx_preprocessing).model_dump_json(),
    )
    hashed = partial(hash_file, path)
    return LocalClassifier(NAME, path.stem, sandbox, hash_model=hashed, kit=lambda: kit, eager=True)


def prepare(max_pixels: int, model: str, preprocessing: str) -> SandboxTasks:
    predict = load(Path(model), parse(preprocessing), max_pixels)
    try:
        return tasks(predict)  # which tries it with samples
    except ModelError as error:
        raise ConfigurationError(
            f"SAFELIGHT_ONNX_MODEL does not fit its declaration. {error.message} In {SETTING} set"
            ' output to "logits" if it gives those, and scale, mean and std as it was trained with.'
        ) from error


def hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigurationError(f"SAFELIGHT_ONNX_MODEL cannot be read: {error}.") from None


def load(path: Path, declared: Declared, max_pixels: int) -> Predict:
    from PIL.Image import Resampling

    from safelight.classification.preprocess import Decoder

    try:
        session = Session(path)
    except Exception as error:
        raise ConfigurationError(f"SAFELIGHT_ONNX_MODEL cannot be used: {error}") from error
    name, kind = find_input(session.inputs, declared)
    recipe = Recipe(
        side=declared.size,
        share=declared.crop,
        resample=Resampling[declared.resample.upper()],
        tensor=partial(declared.tensor, kind=kind),
        input=name,
        scores=find_scores(session.outputs),
        gives_logits=declared.output == "logits",
    )
    return Network(session, Decoder(max_pixels), recipe).predict


def find_input(inputs: Sequence[Any], declared: Declared) -> tuple[str, str]:
    """The name and numpy type of the one input, if it can take what is declared."""
    if len(inputs) != 1 or inputs[0].type not in _KINDS:
        raise ConfigurationError("SAFELIGHT_ONNX_MODEL must take one image of floats or bytes.")
    given = inputs[0]
    wanted = declared.shape
    if len(given.shape) != len(wanted) or any(
        isinstance(has, int) and has != wants
        for has, wants in zip(given.shape, wanted, strict=True)
    ):
        raise ConfigurationError(
            f"SAFELIGHT_ONNX_MODEL takes {given.shape}, but {list(wanted)} is declared: set size"
            " and layout in SAFELIGHT_ONNX_PREPROCESSING."
        )
    kind = _KINDS[given.type]
    if kind == "uint8" and not declared.leaves_pixels_alone:
        raise ConfigurationError(
            "SAFELIGHT_ONNX_MODEL takes bytes: declare scale 1, mean 0 and std 1."
        )
    return given.name, kind


def find_scores(outputs: Sequence[Any]) -> str:
    """The first output with a number per class, with or without one for the background."""
    for output in outputs:
        sizes = output.shape[1:]
        known = all(isinstance(size, int) for size in sizes)
        if known and math.prod(sizes) in {CLASSES, CLASSES + 1}:
            return str(output.name)
    if len(outputs) == 1 and not all(isinstance(size, int) for size in outputs[0].shape[1:]):
        return str(outputs[0].name)
    raise ConfigurationError(f"SAFELIGHT_ONNX_MODEL has no output of {CLASSES} ImageNet classes.")
