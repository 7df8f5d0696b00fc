"""Classification, opened."""

from safelight.classification.base import Classifier
from safelight.classification.jobs import RUN
from safelight.classification.lifecycle import AttemptEnd
from safelight.classification.run import Classification
from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handler
from safelight.objects.store import ObjectStore


def open_classification(base: Base, store: ObjectStore, classifier: Classifier) -> Feature:
    """The classifier is others' too, and theirs to close who made it."""

    def count(end: AttemptEnd) -> None:
        base.metrics.classifications.labels(end).inc()

    runs = Classification(base.units, store, classifier, count)
    base.queue.dead_letters.when_redriven(RUN, runs.on_redrive)
    return Feature(handlers=(Handler(RUN, runs.handle, on_dead=runs.on_dead),))
