"""Classification, opened."""

from dataclasses import dataclass

from safelight.classification.backfill import Backfill
from safelight.classification.base import Classifier
from safelight.classification.embeddings import Embeddings
from safelight.classification.forgetting import Forgetting
from safelight.classification.jobs import BACKFILL, COMPARE, DRAW, FORGET, RECLASSIFY, RUN
from safelight.classification.lifecycle import AttemptEnd
from safelight.classification.originals import RunOriginals
from safelight.classification.quiet import Quiet
from safelight.classification.reclassify.reclassify import Reclassify
from safelight.classification.run import Classification
from safelight.classification.similar.similar import Similar
from safelight.classification.similar.twins import Twins
from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handler, upkeep
from safelight.objects.store import BlobFiles, ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedClassification(Feature):
    """`originals.remember` is for whoever stores an image in this process."""

    originals: RunOriginals


def open_classification(
    base: Base, store: ObjectStore, classifier: Classifier, files: BlobFiles | None = None
) -> OpenedClassification:
    """The classifier is others' too, and theirs to close who made it. `files` are the built-in
    store's."""

    def count(end: AttemptEnd) -> None:
        base.metrics.classifications.labels(end).inc()

    thumbnails = base.settings.thumbnails == "on"
    originals, embeddings = RunOriginals(store, files), Embeddings(base.db, classifier)
    quiet = Quiet()
    runs = Classification(
        base.units, originals, classifier, embeddings, quiet, count, thumbnails=thumbnails
    )
    drawing = Backfill(base.units, originals, classifier, embeddings, quiet, thumbnails=thumbnails)
    twins = Twins(base.db, embeddings, quiet)
    reclassify = Reclassify(base.units, base.ids)
    base.queue.dead_letters.when_redriven(RUN, runs.on_redrive)
    return OpenedClassification(
        services=(Similar(base.db, embeddings), twins, reclassify),
        handlers=(
            Handler(RUN, runs.handle, on_dead=runs.on_dead),
            Handler(DRAW, drawing.draw, on_dead=drawing.on_dead),
            upkeep(BACKFILL, drawing.look),
            upkeep(COMPARE, twins.compare),
            Handler(RECLASSIFY, reclassify.handle),
            upkeep(FORGET, Forgetting(base.db, base.clock).run),
        ),
        originals=originals,
    )
