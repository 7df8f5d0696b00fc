"""Opens ingest: taking uploads in, bringing them to the store, and keeping the directory small."""

from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handler, upkeep
from safelight.ingest.accept import Ingest
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.jobs import OFFLOAD, SWEEP
from safelight.ingest.offload import Offload
from safelight.ingest.receive import UploadLimits
from safelight.ingest.sweep import IngestSweep
from safelight.objects.deliver import Deliver
from safelight.objects.store import ObjectStore


def open_ingest(
    base: Base, directory: IngestDirectory, store: ObjectStore, deliver: Deliver
) -> Feature:
    """Whoever opens it lets `IngestSweep.at_start` run before the first upload."""
    settings = base.settings
    limits = UploadLimits(settings.max_upload_bytes, settings.max_pixels, settings.accepted_types)
    ingest = Ingest(base.units, directory, limits, base.ids, base.metrics)
    offload = Offload(base.units, store, directory, base.queue, deliver, base.metrics)
    sweep = IngestSweep(base.db, directory, base.clock, base.metrics, settings.ingest_ttl_seconds)
    return Feature(
        services=(ingest, sweep),
        handlers=(Handler(OFFLOAD, offload.handle), upkeep(SWEEP, sweep.run)),
        close=ingest.close,
    )
