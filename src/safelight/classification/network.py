"""A neural network of our own, run in threads: one per core, each decoding and inferring one image.

Guarantees: loaded once, on first use unless `eager`, whichever thread comes first; a failed load is
tried again by the next call; at most `threads` images are worked on, the rest wait their turn as
bytes. A cancelled call that has begun runs to its end in its thread and is forgotten.

What a loaded network stands on costs time and memory, so it is imported on first use.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from safelight.classification.base import ModelAway, ModelError, Prediction, Undecodable
from safelight.classification.labels import CLASSES, labels
from safelight.infra.away import is_away

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Resampling

    from safelight.classification.preprocess import Array, Decoder, Pixels


class Predict(Protocol):
    """What a loaded network does."""

    def __call__(
        self, data: bytes, /, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction: ...


class LocalClassifier:
    remote = False

    def __init__(
        self,
        name: str,
        model: str,
        *,
        hash_model: Callable[[], str],
        load: Callable[[], Predict],
        threads: int | None = None,
        eager: bool = False,
    ) -> None:
        self.name = name
        self.model = model
        self.model_hash: str | None = None
        self._hash_model = hash_model
        self._load = load
        self._eager = eager
        self._loading = threading.Lock()
        self._loaded: Predict | None = None
        self._threads = ThreadPoolExecutor(threads or cores(), thread_name_prefix="classify")

    async def open(self) -> None:
        if self.model_hash is not None:
            return
        found = await asyncio.to_thread(self._hash_model)
        if self._eager:
            await asyncio.to_thread(self._model)
        self.model_hash = found

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def classify(
        self, data: bytes, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction:
        try:
            work = asyncio.get_running_loop().run_in_executor(
                self._threads, self.predict, data, thumbnail, embedding
            )
        except RuntimeError as closed:
            raise ModelError("The classifier is closed.") from closed
        return await work

    def predict(self, data: bytes, thumbnail: bool = False, embedding: bool = False) -> Prediction:
        """`classify` in the caller's thread, for a process that has no event loop."""
        try:
            return self._model()(data, thumbnail=thumbnail, embedding=embedding)
        except (Undecodable, ModelError):
            raise
        except Exception as error:
            trouble = ModelAway if is_away(error) else ModelError
            raise trouble(f"{self.model} failed: {error!r}") from error

    def _model(self) -> Predict:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


def cores() -> int:
    """Those this process may use, not all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Session:
    """One thread a run: the threads above it are the parallelism, and none of them spins."""

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
            small = picture.thumbnail() if thumbnail else None
        tensor = recipe.tensor(pixels) if recipe.tensor else pixels[None]
        scores, vector = self.run(tensor, embedding=embedding)
        label, score = best(softmax(scores) if recipe.gives_logits else scores)
        return Prediction(label, score, vector, small)

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
        return scores.reshape(-1), unit(rest[0][0]) if rest else None


def softmax(logits: "Array") -> "NDArray[Any]":
    import numpy as np

    exponents = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(exponents / exponents.sum())


def best(scores: "NDArray[Any]") -> tuple[str, float]:
    """The highest score and its label; some networks begin with a class for the background."""
    known = scores[-CLASSES:]
    index = int(known.argmax())
    return labels()[index], float(known[index])


def unit(vector: "Array") -> bytes:
    """Little-endian float16, length 1 as a vector."""
    import numpy as np

    length = float(np.linalg.norm(vector)) or 1.0
    return (vector / length).astype("<f2").tobytes()
