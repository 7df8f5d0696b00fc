"""Which classifiers there are: one line each, chosen by SAFELIGHT_CLASSIFIER."""

from collections.abc import Callable

from safelight.classification import lite0, onnx, workers_ai
from safelight.classification.base import Classifier
from safelight.errors import ConfigurationError
from safelight.infra.injected import Clock
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings

CLASSIFIERS: tuple[tuple[str, Callable[[Settings, Clock, Sandbox], Classifier]], ...] = (
    (lite0.NAME, lite0.build),
    (onnx.NAME, onnx.build),
    (workers_ai.NAME, workers_ai.build),
)


def check(settings: Settings) -> None:
    """Before anything is opened: a name that is no classifier's is refused."""
    names = [name for name, _ in CLASSIFIERS]
    if settings.classifier not in names:
        raise ConfigurationError(
            f"SAFELIGHT_CLASSIFIER: {settings.classifier!r} is no classifier; choose from "
            f"{', '.join(names)}."
        )


def build(settings: Settings, clock: Clock, sandbox: Sandbox) -> Classifier:
    """The sandbox is where it decodes, and its maker's to close."""
    check(settings)
    return dict(CLASSIFIERS)[settings.classifier](settings, clock, sandbox)
