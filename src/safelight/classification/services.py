"""Classification, opened."""

from safelight.classification.base import Classifier
from safelight.classification.jobs import RUN
from safelight.classification.run import Classification
from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handler
from safelight.objects.store import ObjectStore
from safelight.sandbox.sandbox import Sandbox


def open_classification(
    base: Base, store: ObjectStore, classifier: Classifier, sandbox: Sandbox | None = None
) -> Feature:
    """Classifier and sandbox are others' too, and theirs to close who made them."""
    runs = Classification(base.units, store, classifier, sandbox)
    return Feature(handlers=(Handler(RUN, runs.handle, on_dead=runs.on_dead),))
