"""A model of our own, run in threads: one per core, each decoding and inferring one image.

Guarantees: loaded once, on first use unless `eager`, whichever thread comes first; a failed load is
tried again by the next call; at most `threads` images are worked on, the rest wait their turn as
bytes. A cancelled call that has begun runs to its end in its thread and is forgotten.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from safelight.classification.base import ModelError, Prediction, Undecodable

Predict = Callable[[bytes, bool], Prediction]


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

    async def classify(self, data: bytes, *, thumbnail: bool = False) -> Prediction:
        try:
            work = asyncio.get_running_loop().run_in_executor(
                self._threads, self.predict, data, thumbnail
            )
        except RuntimeError as closed:
            raise ModelError("The classifier is closed.") from closed
        return await work

    def predict(self, data: bytes, thumbnail: bool = False) -> Prediction:
        """`classify` in the caller's thread, for a process that has no event loop."""
        try:
            return self._model()(data, thumbnail)
        except (Undecodable, ModelError):
            raise
        except Exception as error:
            raise ModelError(f"{self.model} failed: {error!r}") from error

    def _model(self) -> Predict:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


def cores() -> int:
    """Those this process may use, not all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
