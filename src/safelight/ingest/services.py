"""Opens ingest: taking uploads in, bringing them to the store, and keeping the directory small."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from safelight.errors import ConfigurationError
from safelight.infra.base import Base, Feature
from safelight.infra.db import Database
from safelight.infra.identity import claim, identity_of, where_is
from safelight.infra.injected import Ids
from safelight.infra.queue.handlers import Handler, upkeep
from safelight.ingest import repo
from safelight.ingest.accept import Ingest
from safelight.ingest.direct.direct import DirectUploads
from safelight.ingest.directory import IngestDirectory, holds_ownerless, unusable
from safelight.ingest.jobs import OFFLOAD, PUT_BACK, SWEEP
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.offload import Arrive, Offload
from safelight.ingest.put_back import Restoration
from safelight.ingest.receive import UploadLimits
from safelight.ingest.sweep import IngestSweep
from safelight.objects.events import ObjectEvent
from safelight.objects.store import ObjectStore


async def open_directory(db: Database, path: Path, ids: Ids) -> IngestDirectory:
    """Refused when it belongs to another database, before anything in it is swept."""
    if await asyncio.to_thread(holds_ownerless, path) and not await repo.knows_any(db):
        raise ConfigurationError(
            f"The ingest directory {path} holds uploads that wait for storage, and the database at "
            f"{where_is(db.url)} has never had one: they are another database's. Start the server "
            "with that database, or give SAFELIGHT_INGEST_DIR an empty directory."
        )
    identity = await identity_of(db)
    try:
        claim(path, identity, ids, what="The ingest directory", database=db.url)
    except OSError as error:
        raise unusable(path, error) from error
    return IngestDirectory(path, ids)


def open_ingest(
    base: Base,
    directory: IngestDirectory,
    store: ObjectStore,
    remember: Callable[[ObjectEvent], None],
    arrive: Arrive | None = None,
) -> Feature:
    """`remember` spares whoever delivers an event reading it back; `arrive` is the short road, for
    those who have it. Whoever opens this lets `IngestSweep.at_start` run before the first
    upload."""
    settings = base.settings
    limits = UploadLimits(
        settings.max_upload_bytes,
        settings.max_pixels,
        settings.accepted_types,
        settings.max_uploads_at_once,
    )
    offload = Offload(base.units, store, directory, base.queue, remember, base.metrics, arrive)
    direct = DirectUploads(base.units, base.bus) if settings.ingest == "direct" else None
    ingest = Ingest(
        base.units, directory, limits, base.ids, base.metrics, base.queue.lease,
        offload.fresh.remember, direct,
    )  # fmt: skip
    sweep = IngestSweep(
        base.queue, directory, base.clock, base.metrics, settings.ingest_ttl_seconds
    )
    return Feature(
        services=(ingest, sweep, Nodes(base.units)),
        handlers=(
            Handler(OFFLOAD, offload.handle),
            Handler(PUT_BACK, Restoration(base.units, store, directory).handle),
            upkeep(SWEEP, sweep.run),
        ),
        close=ingest.close,
    )
