"""Which store: one line each, chosen by the scheme of SAFELIGHT_OBJECT_STORE_URL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import JobKind, Nothing
from safelight.objects.blobs import Blobs
from safelight.objects.collect import Collect
from safelight.objects.jobs import COLLECT, SCRUB, SETTLE, TIDY, Upkeep
from safelight.objects.local import LocalStore
from safelight.objects.scrub import Scrub
from safelight.objects.settle import Settle
from safelight.objects.store import ObjectStore
from safelight.objects.tidy import Tidy
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class Opened:
    """A store, and what has to be done for it now and then."""

    store: ObjectStore
    upkeep: Mapping[JobKind[Nothing], Upkeep]
    bucket: str | None = None
    telling: bool = False  # the bucket's own notifications are the source of events


@dataclass(frozen=True, slots=True)
class Ground:
    """What a store stands on."""

    settings: Settings
    db: Database
    clock: Clock
    ids: Ids
    metrics: Metrics


def _local(ground: Ground) -> Opened:
    db, clock = ground.db, ground.clock
    blobs = Blobs(ground.settings.data_dir.absolute() / "blobs", ground.ids)
    upkeep: dict[JobKind[Nothing], Upkeep] = {
        COLLECT: Collect(db, blobs, clock).run,
        SCRUB: Scrub(db, blobs, clock, ground.metrics).run,
        TIDY: Tidy(db, clock, blobs.drafts).run,
    }
    return Opened(LocalStore(db, blobs, clock, ground.ids), upkeep)


def _s3(ground: Ground) -> Opened:
    from safelight.objects.s3 import S3Store
    from safelight.objects.s3_url import parse

    url = parse(ground.settings.object_store_url)
    spool = ground.settings.data_dir.absolute() / "spool"
    store = S3Store(ground.db, url.open(), ground.clock, ground.ids, spool, telling=url.telling)
    upkeep: dict[JobKind[Nothing], Upkeep] = {TIDY: Tidy(ground.db, ground.clock, spool).run}
    if not url.telling:
        upkeep[SETTLE] = Settle(ground.db, store, ground.clock).run
    return Opened(store, upkeep, url.bucket, url.telling)


STORES: dict[str, Callable[[Ground], Opened]] = {"local": _local, "s3": _s3}


def open_store(ground: Ground) -> Opened:
    scheme = ground.settings.object_store_url.partition("://")[0]
    return STORES[scheme](ground)
