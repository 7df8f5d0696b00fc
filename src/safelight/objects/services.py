"""Opens the store that SAFELIGHT_OBJECT_STORE_URL names (by its scheme, one line each), and what
works on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from safelight.errors import ConfigurationError
from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handle, Handler, upkeep
from safelight.infra.queue.jobs import JobKind, Nothing
from safelight.objects.aws_signature import BucketSigner
from safelight.objects.blobs import Blobs
from safelight.objects.claim import claim_blobs
from safelight.objects.downloads import Downloads
from safelight.objects.jobs import (
    ABORT,
    COLLECT,
    DELIVER,
    PULL,
    PURGE,
    RECONCILE,
    REJECTED,
    SCRUB,
    UPKEEP,
    DeliverPayload,
)
from safelight.objects.local import LocalStore
from safelight.objects.notifications.couriers.registry import open_courier
from safelight.objects.notifications.intake import Intake
from safelight.objects.notifications.pull import PullNotices
from safelight.objects.reconcile import Originals, Reconcile
from safelight.objects.store import BlobFiles, ObjectStore, StoreUnavailable
from safelight.objects.unfinished import AbortUnfinished
from safelight.objects.upkeep import Collect, PurgeObjects, Scrub
from safelight.setting_sources import aws_variables

if TYPE_CHECKING:
    from safelight.objects.bucket import S3Url

UpkeepTask = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store, and what has to be done for it now and then. `files` are the built-in one's."""

    store: ObjectStore
    upkeep: Mapping[JobKind[Nothing], UpkeepTask]
    url: "S3Url | None" = None
    files: BlobFiles | None = None
    signer: BucketSigner | None = None

    @property
    def telling(self) -> bool:
        return self.store.telling


async def _local(base: Base, _: Originals) -> OpenedStore:
    units = base.units
    root = base.settings.data_dir.absolute() / "blobs"
    await claim_blobs(base.db, root, base.ids)
    blobs = Blobs(root, base.ids)
    store, scrub = (
        LocalStore(base.db, blobs, base.clock, base.ids),
        Scrub(units, blobs, base.metrics),
    )
    upkeep: dict[JobKind[Nothing], UpkeepTask] = {
        COLLECT: Collect(units, blobs, base.metrics).run,
        SCRUB: scrub.run,
        PURGE: PurgeObjects(units, blobs.drafts).run,
    }
    files = BlobFiles(
        store.open_blob, scrub.recheck, lambda sizes: asyncio.to_thread(blobs.lacking, sizes)
    )
    return OpenedStore(store, upkeep, files=files)


async def _s3(base: Base, originals: Originals) -> OpenedStore:
    from safelight.objects.bucket import parse_url
    from safelight.objects.s3 import S3Store

    url = parse_url(base.settings.object_store_url)
    signer = url.signer(aws_variables())
    if base.settings.downloads == "presigned" and signer is None:
        raise ConfigurationError(
            "SAFELIGHT_DOWNLOADS=presigned needs credentials that can sign: access_key_id and "
            "secret_access_key in SAFELIGHT_OBJECT_STORE_URL, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY. A machine's own role cannot."
        )
    spool = base.settings.data_dir.absolute() / "spool"
    store = S3Store(
        base.db, url.open(repeat=True), url.open(repeat=False), base.clock, base.ids, spool,
        telling=url.telling, where=url.where, storage_class=url.storage_class,
    )  # fmt: skip
    try:
        await store.ready()
    except StoreUnavailable as error:
        structlog.get_logger().warning(
            "the bucket is away; it is looked at later", error=str(error)
        )
    reconcile = Reconcile(base.units, store, originals, telling=url.telling)
    upkeep: dict[JobKind[Nothing], UpkeepTask] = {
        PURGE: PurgeObjects(base.units, spool).run,
        RECONCILE: reconcile.run,
    }
    if signer:
        upkeep[ABORT] = AbortUnfinished(signer, url.prefix, base.clock).run
    return OpenedStore(store, upkeep, url, signer=signer)


Opener = Callable[[Base, Originals], Awaitable[OpenedStore]]
STORES: dict[str, Opener] = {"local": _local, "s3": _s3}


async def open_store(base: Base, originals: Originals) -> OpenedStore:
    """Refused when it belongs to another database, before anything in it is touched."""
    scheme = base.settings.object_store_url.partition("://")[0]
    return await STORES[scheme](base, originals)


def open_objects(base: Base, opened: OpenedStore, deliver: Handle[DeliverPayload]) -> Feature:
    """`deliver` comes from above: it knows who reacts to events."""
    intake = _intake(base, opened)
    pull = _pull(base, opened, intake)

    async def close() -> None:
        await opened.store.close()
        if pull:
            await pull.close()

    return Feature(
        services=(intake, _downloads(base, opened)),
        handlers=(
            Handler(DELIVER, deliver),
            Handler(REJECTED, intake.handle_rejected),
            Handler(PULL, pull.handle) if pull else upkeep(PULL, _nothing),
            *(upkeep(kind, opened.upkeep.get(kind, _nothing)) for kind in UPKEEP),
        ),
        close=close,
    )


def _pull(base: Base, opened: OpenedStore, intake: Intake) -> PullNotices | None:
    address = base.settings.notifications_url
    if address is None:
        return None
    courier = open_courier(address.get_secret_value(), aws_variables(), base.clock)
    if not opened.telling:
        raise ConfigurationError(
            "SAFELIGHT_NOTIFICATIONS_URL is for a bucket whose notifications are the events. Add "
            "events=bucket to SAFELIGHT_OBJECT_STORE_URL, or take the queue away: Safelight tells "
            "of its own writes itself."
        )
    return PullNotices(courier, intake, base.clock, base.metrics)


def _intake(base: Base, opened: OpenedStore) -> Intake:
    url = opened.url
    if url is None:
        return Intake(base.units)
    return Intake(base.units, url.bucket, url.prefix, heard=url.telling)


def _downloads(base: Base, opened: OpenedStore) -> Downloads:
    if opened.url is None or base.settings.downloads == "proxied":
        return Downloads(base.clock)
    return Downloads(base.clock, opened.signer, opened.url.prefix)


async def _nothing() -> None:
    """For upkeep that this store does not need."""
