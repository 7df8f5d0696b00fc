"""A neural network of our own, as a child runs it: an image in, a prediction out.

What it stands on costs time and memory and meets bytes from outside, so that nothing here is used
in a server's process; local.py asks for it from there.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from safelight.classification.base import ModelError, Prediction, Undecodable
from safelight.classification.labels import CLASSES, TOP, labels
from safelight.classification.refusal import to_facts
from safelight.sandbox.protocol import Answer, SandboxTasks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Resampling

    from safelight.classification.preprocess import Array, Decoder, Pixels

_SLIP: Final = 0.01


class Predict(Protocol):
    """What a loaded network does."""

    def __call__(
        self, data: bytes, /, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction: ...


def tasks(predict: Predict) -> SandboxTasks:
    """Of a kit that has this network."""
    from safelight.sandbox.samples import samples

    for sample in samples():
        predict(sample, thumbnail=True, embedding=True)
        hashlib.sha256(sample)
    return {"classify": partial(classify, predict)}


def classify(predict: Predict, data: bytes, wanted: dict[str, bool]) -> Answer:
    """What local.py reads."""
    digest = hashlib.sha256(data).hexdigest()
    try:
        found = predict(data, **wanted)
    except (Undecodable, ModelError) as error:
        return Answer(to_facts(error, digest))
    drawing = found.drawing
    vector, small = drawing.embedding or b"", drawing.thumbnail or b""
    facts = {"labels": found.labels, "color": drawing.color, "digest": digest}
    return Answer(facts | {"embedding": len(vector)}, vector + small)


class Session:
    """One thread a run: there are several children, and none of them spins."""

    def __init__(self, model: Path | bytes, weights: "Mapping[str, Array] | None" = None) -> None:
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The session reads these arrays in place for as long as it lives.
        self._weights = [
            onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in (weights or {}).values()
        ]
        options.add_external_initializers(list(weights or {}), self._weights)
        self._session = onnxruntime.InferenceSession(
            model if isinstance(model, bytes) else str(model),
            options,
            providers=["CPUExecutionProvider"],
        )

    @property
    def inputs(self) -> Sequence[Any]:
        """Each with `name`, `type` and `shape`."""
        return list(self._session.get_inputs())

    @property
    def outputs(self) -> Sequence[Any]:
        return list(self._session.get_outputs())

    def run(self, outputs: list[str], feed: "dict[str, NDArray[Any]]") -> "list[NDArray[Any]]":
        return list(self._session.run(outputs, feed))


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one network is fed and read. Without `tensor` it takes the pixels as they are."""

    side: int
    share: float
    resample: "Resampling"
    input: str
    scores: str
    tensor: "Callable[[Pixels], NDArray[Any]] | None" = None
    embedding: str | None = None
    gives_logits: bool = True


@dataclass(frozen=True, slots=True)
class Network:
    """A loaded one: image in, prediction out."""

    session: Session
    decoder: "Decoder"
    recipe: Recipe

    def predict(
        self, data: bytes, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction:
        recipe = self.recipe
        with self.decoder.decoded(data) as picture:
            pixels = picture.square(recipe.side, recipe.share, recipe.resample)
            drawing = picture.drawing(thumbnail=thumbnail)
        tensor = recipe.tensor(pixels) if recipe.tensor else pixels[None]
        scores, vector = self.run(tensor, embedding=embedding)
        found = best(softmax(scores) if recipe.gives_logits else scores.clip(0, 1))
        return Prediction(*found[0], replace(drawing, embedding=vector), found)

    def run(
        self, tensor: "NDArray[Any]", *, embedding: bool = False
    ) -> "tuple[Array, bytes | None]":
        import numpy as np

        wanted = [self.recipe.scores]
        if embedding and self.recipe.embedding:
            wanted.append(self.recipe.embedding)
        scores, *rest = self.session.run(wanted, {self.recipe.input: tensor})
        if not np.isfinite(scores).all() or scores.size not in {CLASSES, CLASSES + 1}:
            raise ModelError("The model gave no usable scores.")
        if not self.recipe.gives_logits and not are_shares(scores):
            raise ModelError("The model's scores are no probabilities.")
        return scores.reshape(-1), unit(rest[0][0]) if rest else None


def are_shares(scores: "NDArray[Any]") -> bool:
    """Each from nothing to all of it, but for what a network with short floats is off by."""
    return bool(scores.min() >= -_SLIP and scores.max() <= 1 + _SLIP)


def softmax(logits: "Array") -> "NDArray[Any]":
    import numpy as np

    exponents = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(exponents / exponents.sum())


def best(scores: "NDArray[Any]") -> tuple[tuple[str, float], ...]:
    """The highest scores and their labels; some networks begin with a class for the background."""
    known = scores[-CLASSES:]
    order = (-known).argsort(kind="stable")[:TOP]
    return tuple((labels()[index], float(known[index])) for index in order)


def unit(vector: "Array") -> bytes:
    """Little-endian float16, length 1 as a vector."""
    import numpy as np

    length = float(np.linalg.norm(vector)) or 1.0
    return (vector / length).astype("<f2").tobytes()
