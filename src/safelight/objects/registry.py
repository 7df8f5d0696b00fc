"""Which store: one line each, chosen by the scheme of SAFELIGHT_OBJECT_STORE_URL."""

from collections.abc import Callable

from safelight.infra.clock import Clock
from safelight.infra.db import Database
from safelight.infra.ids import Ids
from safelight.objects.blobs import Blobs
from safelight.objects.local import LocalStore
from safelight.objects.store import ObjectStore
from safelight.settings import Settings

Opener = Callable[[Settings, Database, Clock, Ids], ObjectStore]


def _local(settings: Settings, db: Database, clock: Clock, ids: Ids) -> ObjectStore:
    return LocalStore(db, Blobs(settings.data_dir.absolute() / "blobs", ids), clock, ids)


def _s3(settings: Settings, db: Database, clock: Clock, ids: Ids) -> ObjectStore:
    from safelight.objects.s3 import S3Store
    from safelight.objects.s3_url import parse

    url = parse(settings.object_store_url)
    spool = settings.data_dir.absolute() / "spool"
    return S3Store(db, url.open(), clock, ids, spool, telling=url.telling)


STORES: dict[str, Opener] = {"local": _local, "s3": _s3}


def open_store(settings: Settings, db: Database, clock: Clock, ids: Ids) -> ObjectStore:
    scheme = settings.object_store_url.partition("://")[0]
    return STORES[scheme](settings, db, clock, ids)
