"""A loaded network: image in, prediction out. Imported on first use only, since what it stands on
costs time and memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL.Image import Resampling

from safelight.classification.base import ModelError, Prediction
from safelight.classification.labels import CLASSES, labels
from safelight.classification.preprocess import Decoder, Pixels

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one network is fed and read."""

    side: int
    share: float
    resample: Resampling
    tensor: Callable[[Pixels], NDArray[Any]]
    input: str
    scores: str
    embedding: str | None = None
    gives_logits: bool = True


class Session:
    """One thread a run: the threads above it are the parallelism, and none of them spins."""

    def __init__(self, model: Path | bytes, weights: Mapping[str, Array] | None = None) -> None:
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

    def run(self, outputs: list[str], feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        return list(self._session.run(outputs, feed))


@dataclass(frozen=True, slots=True)
class Network:
    session: Session
    decoder: Decoder
    recipe: Recipe

    def predict(self, data: bytes, thumbnail: bool) -> Prediction:
        recipe = self.recipe
        with self.decoder.decoded(data) as picture:
            pixels = picture.square(recipe.side, recipe.share, recipe.resample)
            small = picture.thumbnail() if thumbnail else None
        scores, embedding = self.run(recipe.tensor(pixels))
        label, score = best(softmax(scores) if recipe.gives_logits else scores)
        return Prediction(label, score, embedding, small)

    def run(self, tensor: NDArray[Any]) -> tuple[Array, bytes | None]:
        wanted = [self.recipe.scores]
        if self.recipe.embedding:
            wanted.append(self.recipe.embedding)
        scores, *rest = self.session.run(wanted, {self.recipe.input: tensor})
        if not np.isfinite(scores).all() or scores.size not in {CLASSES, CLASSES + 1}:
            raise ModelError("The model gave no usable scores.")
        return scores.reshape(-1), unit(rest[0][0]) if rest else None


def softmax(logits: Array) -> NDArray[np.float64]:
    exponents = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(exponents / exponents.sum())


def best(scores: NDArray[Any]) -> tuple[str, float]:
    """The highest score and its label; some networks begin with a class for the background."""
    known = scores[-CLASSES:]
    index = int(known.argmax())
    return labels()[index], float(known[index])


def unit(vector: Array) -> bytes:
    length = float(np.linalg.norm(vector)) or 1.0
    return (vector / length).astype("<f2").tobytes()
